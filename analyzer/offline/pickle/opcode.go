// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pickle

// Instructions, as CPython's pickletools names them.
const (
	opMark            = '('
	opStop            = '.'
	opPop             = '0'
	opPopMark         = '1'
	opDup             = '2'
	opFloat           = 'F'
	opInt             = 'I'
	opBinint          = 'J'
	opBinint1         = 'K'
	opLong            = 'L'
	opBinint2         = 'M'
	opNone            = 'N'
	opPersid          = 'P'
	opBinpersid       = 'Q'
	opReduce          = 'R'
	opString          = 'S'
	opBinstring       = 'T'
	opShortBinstring  = 'U'
	opUnicode         = 'V'
	opBinunicode      = 'X'
	opAppend          = 'a'
	opBuild           = 'b'
	opGlobal          = 'c'
	opDict            = 'd'
	opEmptyDict       = '}'
	opAppends         = 'e'
	opGet             = 'g'
	opBinget          = 'h'
	opInst            = 'i'
	opLongBinget      = 'j'
	opList            = 'l'
	opEmptyList       = ']'
	opObj             = 'o'
	opPut             = 'p'
	opBinput          = 'q'
	opLongBinput      = 'r'
	opSetitem         = 's'
	opTuple           = 't'
	opEmptyTuple      = ')'
	opSetitems        = 'u'
	opBinfloat        = 'G'
	opBinbytes        = 'B'
	opShortBinbytes   = 'C'
	opProto           = 0x80
	opNewobj          = 0x81
	opExt1            = 0x82
	opExt2            = 0x83
	opExt4            = 0x84
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewtrue         = 0x88
	opNewfalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinunicode = 0x8c
	opBinunicode8     = 0x8d
	opBinbytes8       = 0x8e
	opEmptySet        = 0x8f
	opAdditems        = 0x90
	opFrozenset       = 0x91
	opNewobjEx        = 0x92
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
	opBytearray8      = 0x96
	opNextBuffer      = 0x97
	opReadonlyBuffer  = 0x98
)
