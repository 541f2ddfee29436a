// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package isolate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const name = "isolate-test"

var kept [][]byte

func init() {
	maxMemory = 1 << 30
	Serve(name, work)
}

func work(args []string, in io.Reader, out io.Writer) error {
	switch args[0] {
	case "copies":
		_, err := io.Copy(out, in)
		return err
	case "fails":
		return errors.New("it fails\nfor two reasons")
	case "panics":
		panic("whatever")
	case "claims":
		kept = append(kept, make([]byte, 1<<40))
	case "grows":
		for range 1 << 20 {
			kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "writes":
		for {
			if _, err := out.Write(make([]byte, 1<<16)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestRead has readers that end in every way. None of them ends this process.
func TestRead(t *testing.T) {
	stop := errors.New("enough")
	all := func(to *[]byte) func(io.Reader) error {
		return func(r io.Reader) (err error) { *to, err = io.ReadAll(r); return err }
	}
	for _, c := range []struct{ what, out, err string }{
		{"copies", "text", ""},
		{"fails", "", "it fails\nfor two reasons"},
		{"panics", "", "reading it takes more than"},
		{"claims", "", "reading it takes more than"},
		{"grows", "", "reading it takes more than"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var out []byte
			err := Read(t.Context(), name, []string{c.what}, []byte("text"), all(&out))
			if string(out) != c.out || !strings.HasPrefix(fmt.Sprint(err), c.err) || (c.err == "") != (err == nil) {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	t.Run("writes", func(t *testing.T) {
		err := Read(t.Context(), name, []string{"writes"}, nil, func(r io.Reader) error {
			_, err := io.ReadFull(r, make([]byte, 10))
			return errors.Join(err, stop)
		})
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}
