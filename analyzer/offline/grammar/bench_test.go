// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// boundMBs is the speed at which 5 GB take 10 s, on one core.
const boundMBs = 500

// logTexts are what jobs print while nothing is wrong, a line each.
var logTexts = map[string]func(i int) string{
	"iterations": func(i int) string {
		return fmt.Sprintf("2026-11-22T10:%02d:%02d.%06d host-3 trainer[%d] [rank%d] iteration %d/500000 | consumed samples: %d | elapsed time per iteration (ms): %d.%d | loss: %d.%06d | grad norm: 0.%03d",
			i/60%60, i%60, i*61%1000000, 4000+i%8, i%8, i, i*512, 900+i%31, i%10, 2+i%3, i*7919%1000000, i%1000)
	},
	"NCCL_DEBUG=INFO": func(i int) string {
		return fmt.Sprintf("gpu-%d:%d:%d [%d] NCCL INFO Channel %02d/0 : %d[%d] -> %d[%d] via P2P/CUMEM/read", i%64, 5000+i%8, 6000+i%8, i%8, i%24, i%64, i%8, (i+1)%64, (i+1)%8)
	},
	"server": func(i int) string {
		return fmt.Sprintf(`(APIServer pid=%d) INFO:     10.0.%d.%d:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK`, 100+i%4, i%256, i*7%256, 30000+i%9999)
	},
	"progress bars": func(i int) string {
		return fmt.Sprintf("Epoch %d:  %d%%|█████▌    | %d/10000 [00:%02d<00:%02d, %d.%02dit/s, v_num=3, train_loss=%d.%03d]\r", i/10000, i/100%100, i%10000, i%60, 59-i%60, i%20, i%100, i%4, i%1000)
	},
	"warnings": func(i int) string {
		return fmt.Sprintf("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py:%d: UserWarning: an error of 0.%d in rank %d is ignored; world size unknown, timeout waiting", 1000+i%999, i%97, i%64)
	},
}

// BenchmarkSieve reads SCAN_MB megabytes of each text, 500 where it is not set, in one goroutine, and prints the speed beside the bound.
func BenchmarkSieve(b *testing.B) {
	megabytes := 500
	if s := os.Getenv("SCAN_MB"); s != "" {
		var err error
		if megabytes, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	for name, line := range logTexts {
		b.Run(name, func(b *testing.B) {
			var block []byte
			for i := 0; len(block) < 16<<20; i++ {
				block = append(append(block, line(i)...), '\n')
			}
			size := int64(megabytes) * 1e6
			b.SetBytes(size)
			before, times := cpu(b), 0.0
			for b.Loop() {
				times++
				if _, _, err := Sieve(io.LimitReader(&loop{text: block}, size)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(times*float64(size)/1e6/(cpu(b)-before), "MB/cpu-s")
			b.ReportMetric(boundMBs, "bound-MB/s")
		})
	}
}

// cpu is how many seconds the process has computed: others on the machine do not count.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// loop gives a text again and again.
type loop struct {
	text []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.text[l.at:])
	l.at = (l.at + n) % len(l.text)
	return n, nil
}
