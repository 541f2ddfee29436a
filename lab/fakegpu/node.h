// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The played host: the directory FAKEGPU_DIR.
//
// Its file `node` has the lines `name HOST`, `gpus N`, `compute MAJOR.MINOR`, the GPUs' compute capability, and `p2p 1` when they reach
// each other's memory; without it the host is called "fakegpu" and has one GPU, of 8.0. A GPU's number is its index on the host. A process sees those of CUDA_VISIBLE_DEVICES, numbered from 0: these numbers are called devices.

#ifndef FAKEGPU_NODE_H
#define FAKEGPU_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NODE_GPUS_MAX = 16, NODE_UUID_TEXT = 41, NODE_PCI_TEXT = 16 };

// The directory, NULL if there is none.
const char *node_directory(void);

// The path of the GPU's file with this ending ("control", "state"); false if there is no directory or it does not fit.
int node_path(int gpu, const char *ending, char *path, size_t size);

const char *node_name(void);
int node_gpus(void);
void node_compute(int *major, int *minor);
bool node_p2p(void);

// The devices of this process, and the GPU of each; -1 if there is no such device.
int node_devices(void);
int node_gpu_of_device(int device);

// PCI bus number; domain, device and function are 0.
unsigned node_pci_bus(int gpu);

// "0000:10:00.0".
void node_pci_text(int gpu, char text[NODE_PCI_TEXT]);

// The UUID's 16 bytes, and as text "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".
void node_uuid(int gpu, uint8_t uuid[16]);
void node_uuid_text(int gpu, char text[NODE_UUID_TEXT]);

#endif
