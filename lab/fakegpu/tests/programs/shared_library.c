// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A library that imports the CUDA runtime, as a build with the shared runtime does.

int cudaMalloc(void **p, unsigned long n);
int cudaNotPlayed(int a);

int allocate(void **p) { return cudaMalloc(p, 4096); }
int not_played(void) { return cudaNotPlayed(1); }
