// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A receiver takes only what was signed with its secret, as it was sent, and not long ago.
func TestVerify(t *testing.T) {
	secret, body, at := []byte("secret"), []byte(`{"version":1}`), time.Unix(1764201600, 0)
	good := Sign(secret, body, at)
	for name, c := range map[string]struct {
		secret, body, signature string
		now                     time.Time
		refused                 bool
	}{
		"as sent":            {"secret", string(body), good, at.Add(time.Minute), false},
		"a clock behind":     {"secret", string(body), good, at.Add(-time.Minute), false},
		"another secret":     {"guess", string(body), good, at, true},
		"another body":       {"secret", `{"version":2}`, good, at, true},
		"sent again later":   {"secret", string(body), good, at.Add(time.Hour), true},
		"with a new time":    {"secret", string(body), strings.Replace(good, "t=17642016", "t=17642052", 1), at.Add(time.Hour), true},
		"without signature":  {"secret", string(body), "", at, true},
		"without time":       {"secret", string(body), "v1=" + strings.SplitN(good, "v1=", 2)[1], at, true},
		"cut off":            {"secret", string(body), good[:len(good)-2], at, true},
		"signed with no key": {"secret", string(body), Sign(nil, body, at), at, true},
		"no secret at all":   {"", string(body), Sign(nil, body, at), at, true},
		"two signatures":     {"secret", string(body), good + "," + good, at, true},
		"time in other form": {"secret", string(body), strings.Replace(good, "t=", "t=+", 1), at, true},
		"time without end":   {"secret", string(body), "t=99999999999999999999,v1=00", at, true},
		"latest time":        {"secret", string(body), "t=9223372036854775807,v1=" + hex.EncodeToString(sum(secret, "9223372036854775807", body)), at, true},
	} {
		if err := Verify([]byte(c.secret), []byte(c.body), c.signature, c.now, 5*time.Minute); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a webhook posts can be verified by its receiver; without a secret nothing is signed.
func TestWebhookIsSigned(t *testing.T) {
	var got error
	signature := ""
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signature = r.Header.Get(SignatureHeader)
		got = Verify([]byte("secret"), body, signature, time.Now(), time.Minute)
	}))
	defer srv.Close()
	if _, err := (&Webhook{URL: srv.URL, HTTP: srv.Client(), Secret: []byte("secret")}).Do(t.Context(), request); err != nil || got != nil {
		t.Errorf("signed: %v, %v", err, got)
	}
	if _, err := (&Webhook{URL: srv.URL, HTTP: srv.Client()}).Do(t.Context(), request); err != nil || signature != "" || got == nil {
		t.Errorf("unsigned: %v, %q, %v", err, signature, got)
	}
}

// A receiver of actions that drains nothing for anybody but its analyzer.
func ExampleVerify() {
	secret := []byte("kept in a file on both sides")
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = Verify(secret, body, r.Header.Get(SignatureHeader), time.Now(), 5*time.Minute)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		fmt.Println("verified")
	}))
	defer receiver.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, key := range []string{string(secret), "a guess"} {
		body := `{"version":1,"action":"drain","hosts":["node-7"]}`
		req, _ := http.NewRequest(http.MethodPost, receiver.URL, strings.NewReader(body))
		req.Header.Set(SignatureHeader, Sign([]byte(key), []byte(body), time.Now()))
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// verified
	// 200 OK
	// 403 Forbidden
}
