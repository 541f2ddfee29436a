// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"regexp"
)

// Pages of torch.distributed's debug server, as browsers save them: what each rank answered stands below a heading.
var (
	pageRank = regexp.MustCompile(`(?i)<h2[^>]*>\s*Rank (\d+)\b[^<]*</h2>`)
	pageText = regexp.MustCompile(`(?is)<pre[^>]*>(.*?)</pre>`)
	pageTag  = regexp.MustCompile(`<[^>]*>`)
)

func sniffPage(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n\ufeff")
	return len(b) > 0 && b[0] == '<' && pageRank.Match(b) && bytes.Contains(b, []byte("<pre"))
}

// readPage hands what each rank answered to the reader of its kind.
func (l *Loader) readPage(ctx context.Context) func(string, []byte, *Collection) (string, error) {
	return func(name string, data []byte, got *Collection) (string, error) {
		headings := pageRank.FindAllSubmatchIndex(data, maxMembers)
		n := 0
		for i, h := range headings {
			end := len(data)
			if i+1 < len(headings) {
				end = headings[i+1][0]
			}
			m := pageText.FindSubmatch(data[h[1]:end])
			if m == nil {
				continue
			}
			text := []byte(html.UnescapeString(string(pageTag.ReplaceAll(m[1], nil))))
			if text = bytes.TrimSpace(text); len(text) == 0 || sniffPage(text) {
				continue
			}
			n++
			l.understand(ctx, fmt.Sprintf("%s/rank_%s", name, data[h[2]:h[3]]), text, got)
		}
		if n == 0 {
			return "", errors.New("no rank has answered")
		}
		return "", nil
	}
}
