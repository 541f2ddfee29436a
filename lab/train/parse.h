// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Values of flags. All of these die with a message on nonsense; `name` is the flag's.

#ifndef TRAIN_PARSE_H
#define TRAIN_PARSE_H

#include <stdint.h>

// A whole number; K, M and G are binary.
uint64_t parse_whole(const char *name, const char *text);
// A number of units.
uint64_t parse_scaled(const char *name, const char *text, double unit);
// The index of the word; words end with NULL.
int parse_word(const char *name, const char *text, const char *const *words);
// 0 for the first word, 1 for the second.
int parse_choice(const char *name, const char *text, const char *first, const char *second);
// The number in an environment variable that must be there.
int parse_env(const char *name);
// "dp2,pp2,tp2", also with epN and cpN where these are not NULL. Sizes that are not named stay as they are.
void parse_layout(const char *text, int *dp, int *pp, int *tp, int *ep, int *cp);

#endif
