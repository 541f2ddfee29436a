// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Queue pairs, as the verbs interposer reports them, and which flow sends on which.
//
// NCCL tells nobody what queue pair a flow uses. But its progress thread says that a flow's data is about to be sent
// (SendPeerWait) right before it posts the send, on the same thread: a post between that and the thread's next step event
// belongs to that flow.

#ifndef CULPRIT_QP_H
#define CULPRIT_QP_H

#include "hooks.h"
#include "shim.h"

uint64_t qp_created(uint32_t qp_num, const char *device);
void qp_changed(uint64_t qp, const struct culprit_qp_change *change);
void qp_destroyed(uint64_t qp);
void qp_send_posted(uint64_t qp, uint64_t bytes, bool signaled);
void qp_receive_posted(uint64_t qp);
void qp_completed(uint64_t qp, bool receive, int status);

// qp_flow_sending notes that the calling thread is about to send for a flow, qp_flow_other that it does something else.
void qp_flow_sending(uint32_t flow);
void qp_flow_other(void);

#endif
