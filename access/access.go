// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package access tells clients that may change something from those that may only look.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
)

// webConfig is what is read of a file for --web.config.file, which exporter-toolkit authenticates by.
type webConfig struct {
	Users map[string]string `yaml:"basic_auth_users"`
	TLS   struct {
		ClientAuth string `yaml:"client_auth_type"`
	} `yaml:"tls_server_config"`
}

func read(file string) (*webConfig, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the web configuration: %w", err)
	}
	c := new(webConfig)
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("web configuration %s: %w", file, err)
	}
	return c, nil
}

// verifiesCertificates tells whether clients prove who they are by certificates.
func (c *webConfig) verifiesCertificates() bool {
	return c.TLS.ClientAuth == "RequireAndVerifyClientCert" || c.TLS.ClientAuth == "VerifyClientCertIfGiven"
}

// identity is who sent a request, as far as the service has proof of it.
type identity struct {
	name   string // Empty: nobody proved anything.
	mayAct bool
}

type identityKey struct{}

// Client gives by what name the client of a request has been authenticated, empty where nobody was, and whether it may change something.
// The context must be that of a request behind Restrict.
func Client(ctx context.Context) (name string, mayAct bool) {
	id, _ := ctx.Value(identityKey{}).(identity)
	return id.name, id.mayAct
}

// Restrict lets only the users named send requests that change something: any but GET, HEAD and OPTIONS. Without users, it lets
// all. Client tells those behind it who asks. The file is that of --web.config.file: a user is one of its basic_auth_users, or the common name in a client's certificate
// that was verified.
func Restrict(next http.Handler, file string, users []string) (http.Handler, error) {
	if len(users) > 0 {
		if err := known(file, users); err != nil {
			return nil, err
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard(w.Header())
		// A proxy that goes by a length beside the chunks, which net/http drops, lets another request pass within the body.
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		id := identify(r, file, users)
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
		default:
			if !id.mayAct {
				http.Error(w, "you may look and change nothing: see --web.act-user", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	}), nil
}

// guard has browsers and proxies take an answer for what it is, whoever wrote the names in it: not for another type, not within a page of
// others, and not kept for those who may not read it.
func guard(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store") // Handlers of what never changes say so.
}

// Check reads the file for --web.config.file with all that it names, before anything listens. An empty name is in order.
func Check(file string) error {
	err := web.Validate(file)
	if err != nil && strings.Contains(err.Error(), "bcrypt") {
		err = errors.New("a password of basic_auth_users is no bcrypt hash: write what htpasswd -nB USER prints")
	}
	if err != nil {
		return fmt.Errorf("--web.config.file=%s: %w", file, err)
	}
	return nil
}

// known checks that the file can prove who the users are.
func known(file string, users []string) error {
	if file == "" {
		return errors.New("--web.act-user needs --web.config.file: without it nobody proves who they are")
	}
	config, err := read(file)
	if err != nil {
		return err
	}
	for _, user := range users {
		if _, known := config.Users[user]; !known && !config.verifiesCertificates() {
			return fmt.Errorf("--web.act-user=%s: %s has no such user and verifies no certificates", user, file)
		}
	}
	return nil
}

func identify(r *http.Request, file string, users []string) identity {
	if file == "" {
		return identity{mayAct: len(users) == 0}
	}
	proved := names(r, file)
	if len(users) > 0 {
		i := slices.IndexFunc(proved, func(name string) bool { return slices.Contains(users, name) })
		if i >= 0 {
			return identity{proved[i], true}
		}
	}
	id := identity{mayAct: len(users) == 0}
	if len(proved) > 0 {
		id.name = proved[0]
	}
	return id
}

// names gives by what names the client of a request has been authenticated. The file is read again: it can change while the program
// runs, and where it has no users, whoever sends a name has not proved it.
func names(r *http.Request, file string) []string {
	var out []string
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		out = append(out, r.TLS.VerifiedChains[0][0].Subject.CommonName)
	}
	user, _, ok := r.BasicAuth()
	if !ok {
		return out
	}
	config, err := read(file)
	if err != nil {
		return out
	}
	if _, known := config.Users[user]; known {
		out = append(out, user)
	}
	return out
}
