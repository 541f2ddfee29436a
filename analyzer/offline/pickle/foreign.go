// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pickle

import "slices"

// foreign executes framing, and answers the instructions that would import or call something with opaque values.
func (m *machine) foreign(op byte) error {
	switch op {
	case opProto:
		v, err := m.uint(1)
		if err == nil && v > highestProt {
			return m.fail("protocol %d is unknown", v)
		}
		return err
	case opFrame:
		_, err := m.uint(8) // Only a hint for buffering.
		return err
	case opGlobal:
		return m.global()
	case opStackGlobal:
		name, err := m.pop()
		if err != nil {
			return err
		}
		module, err := m.pop()
		if err != nil {
			return err
		}
		m.push(&Opaque{Name: joined(module, name)})
		return nil
	case opReduce, opNewobj, opNewobjEx:
		return m.call(op == opNewobjEx)
	case opBuild:
		_, err := m.pop() // State of an object that was never made.
		return err
	case opInst, opObj:
		return m.instance(op == opInst)
	case opPersid, opBinpersid, opExt1, opExt2, opExt4, opNextBuffer, opReadonlyBuffer:
		return m.outside(op)
	default:
		return m.fail("unknown instruction %#x", op)
	}
}

func (m *machine) global() error {
	module, err := m.line()
	if err != nil {
		return err
	}
	name, err := m.line()
	if err != nil {
		return err
	}
	m.push(&Opaque{Name: module + "." + name})
	return nil
}

func (m *machine) call(keywords bool) error {
	if keywords {
		if _, err := m.pop(); err != nil {
			return err
		}
	}
	args, err := m.pop()
	if err != nil {
		return err
	}
	callee, err := m.pop()
	if err != nil {
		return err
	}
	list, _ := args.(Tuple)
	m.push(m.answer(callee, list))
	return nil
}

// answer gives what calling a constructor of plain containers would have given, and something opaque for all others.
func (m *machine) answer(callee any, args Tuple) any {
	f, ok := callee.(*Opaque)
	if !ok || f.Call {
		return &Opaque{Name: "?", Call: true}
	}
	var items []any
	if len(args) > 0 {
		items = elements(args[0])
	}
	switch f.Name {
	case "collections.OrderedDict", "collections.defaultdict", "builtins.dict":
		return &Dict{}
	case "builtins.list", "torch.jit._pickle.build_intlist", "torch.jit._pickle.build_doublelist",
		"torch.jit._pickle.build_boollist", "torch.jit._pickle.build_tensorlist":
		return &List{Items: slices.Clone(items)}
	case "torch.jit._pickle.restore_type_tag":
		if len(args) > 0 {
			return args[0]
		}
	case "builtins.set", "builtins.frozenset", "__builtin__.set", "__builtin__.frozenset":
		return &Set{Items: slices.Clone(items)}
	case "builtins.tuple":
		return Tuple(slices.Clone(items))
	case "_codecs.encode": // Bytes in protocol 2.
		if s, ok := first(args).(string); ok {
			b := make([]byte, 0, len(s))
			for _, r := range s {
				b = append(b, byte(r)) // Latin-1 by construction.
			}
			return b
		}
	}
	m.refuse(f.Name)
	return &Opaque{Name: f.Name, Call: true}
}

func first(args Tuple) any {
	if len(args) == 0 {
		return nil
	}
	return args[0]
}

func elements(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.Items
	case Tuple:
		return v
	case *Set:
		return v.Items
	default:
		return nil
	}
}

func (m *machine) instance(named bool) error {
	name := "?"
	if named {
		if err := m.global(); err != nil {
			return err
		}
		v, _ := m.pop()
		if o, ok := v.(*Opaque); ok {
			name = o.Name
		}
	}
	items, err := m.popMark()
	if err != nil {
		return err
	}
	if !named && len(items) > 0 {
		if o, ok := items[0].(*Opaque); ok {
			name = o.Name
		}
	}
	m.refuse(name)
	m.push(&Opaque{Name: name, Call: true})
	return nil
}

// outside answers references to things that are not in the pickle.
func (m *machine) outside(op byte) error {
	var err error
	switch op {
	case opPersid:
		_, err = m.line()
	case opBinpersid:
		_, err = m.pop()
	case opExt1:
		_, err = m.uint(1)
	case opExt2:
		_, err = m.uint(2)
	case opExt4:
		_, err = m.uint(4)
	case opReadonlyBuffer:
		_, err = m.top()
		return err
	}
	if err == nil {
		m.push(&Opaque{Name: "external"})
	}
	return err
}

func joined(module, name any) string {
	a, ok1 := module.(string)
	b, ok2 := name.(string)
	if !ok1 || !ok2 {
		return "?"
	}
	return a + "." + b
}
