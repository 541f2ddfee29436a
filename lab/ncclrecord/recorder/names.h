// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Names of events and states as a recording has them. Index of an event: the bit of its type; of a state: its number.

#ifndef NCCLRECORD_NAMES_H
#define NCCLRECORD_NAMES_H

#include <stdint.h>
#include <string.h>

static const char *const event_names[] = {
    "Group",     "Coll",    "P2p",    "ProxyOp",      "ProxyStep", "ProxyCtrl", "KernelCh", "NetPlugin", "GroupApi",
    "CollApi",   "P2pApi",  "KernelLaunch", "CeColl", "CeSync",    "CeBatch",   "KernelPhase",
};

static const char *const state_names[] = {
    "ProxyOpSendPosted", "ProxyOpSendRemFifoWait", "ProxyOpSendTransmitted", "ProxyOpSendDone",    "ProxyOpRecvPosted",
    "ProxyOpRecvReceived", "ProxyOpRecvTransmitted", "ProxyOpRecvDone",      "SendGPUWait",        "SendWait",
    "RecvWait",          "RecvFlushWait",          "RecvGPUWait",            "ProxyCtrlIdle",      "ProxyCtrlActive",
    "ProxyCtrlSleep",    "ProxyCtrlWakeup",        "ProxyCtrlAppend",        "ProxyCtrlAppendEnd", "ProxyOpInProgress",
    "SendPeerWait",      "NetPluginUpdate",        "KernelChStop",           "GroupStartApiStop",  "GroupEndApiStart",
};

enum {
  EVENT_NAMES = sizeof event_names / sizeof *event_names,
  STATE_NAMES = sizeof state_names / sizeof *state_names,
};

static inline const char *event_name(uint64_t type) {
  for (int i = 0; i < EVENT_NAMES; i++) {
    if (type == (uint64_t)1 << i) return event_names[i];
  }
  return "Unknown";
}

static inline const char *state_name(int state) {
  return state >= 0 && state < STATE_NAMES ? state_names[state] : "Unknown";
}

#endif
