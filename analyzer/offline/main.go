// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// Main runs `analyze` with the given arguments and nothing on standard input, for programs that check verdicts. Its
// result is the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := kingpin.New("culprit-analyzer", "").Terminate(nil).UsageWriter(io.Discard)
	c := &config{columns: map[string]string{}}
	cmd := c.register(app)
	if _, err := app.Parse(append([]string{cmd.FullCommand()}, args...)); err != nil {
		fmt.Fprintln(stderr, "culprit-analyzer:", err)
		return ExitUsage
	}
	return c.run(ctx, strings.NewReader(""), stdout, stderr)
}
