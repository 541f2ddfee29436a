// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader carries the signature of a webhook's body: "t=1764201600,v1=HEX". t is when it was sent, in seconds of Unix time, and
// HEX the HMAC-SHA256 of t, a full stop and the body, under the rule's secret.
const SignatureHeader = "X-Culprit-Signature"

// Sign gives the signature of a body that is sent at some time.
func Sign(secret, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(sum(secret, t, body))
}

func sum(secret []byte, t string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify reports why a body is not what an analyzer with the secret sent within tolerance of now: a receiver refuses it then. Without
// the time, a message that somebody overheard could be sent again. Within tolerance it still can: the pair of action and incident tells that
// it came before.
func Verify(secret, body []byte, signature string, now time.Time, tolerance time.Duration) error {
	if len(secret) == 0 {
		return errors.New("there is no secret: anybody could have signed it")
	}
	t, mac, ok := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	at, err := strconv.ParseInt(t, 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("%s is not of the form t=SECONDS,v1=HEX", SignatureHeader)
	}
	got, err := hex.DecodeString(mac)
	if err != nil || !hmac.Equal(got, sum(secret, t, body)) {
		return errors.New("the signature is not the body's")
	}
	if age := now.Sub(time.Unix(at, 0)); age.Abs() > tolerance {
		return fmt.Errorf("the message was signed %s ago", age.Round(time.Second))
	}
	return nil
}
