// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.yaml.in/yaml/v2"
)

// brokersFile says how to speak to brokers that want to know who comes.
type brokersFile struct {
	TLS  *config.TLSConfig `yaml:"tls_config"` // Nil: without TLS, unless Options ask for it.
	SASL *saslConfig       `yaml:"sasl"`       // Nil: without a name.
}

type saslConfig struct {
	Mechanism    string `yaml:"mechanism"` // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Username     string `yaml:"username"`
	Password     string `yaml:"password"`
	PasswordFile string `yaml:"password_file"` // In place of password; read once, relative to the file it is named in.
}

// load reads the file; an empty name means that there is nothing to say.
func load(file string) (brokersFile, error) {
	var b brokersFile
	if file == "" {
		return b, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	if err := yaml.UnmarshalStrict(content, &b); err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	if b.TLS != nil {
		b.TLS.SetDirectory(filepath.Dir(file))
	}
	if s := b.SASL; s != nil && s.PasswordFile != "" {
		password, err := os.ReadFile(config.JoinDir(filepath.Dir(file), s.PasswordFile))
		if err != nil {
			return b, fmt.Errorf("%s: %w", file, err)
		}
		s.Password = strings.TrimSpace(string(password))
	}
	return b, nil
}

// options gives what the client needs to do as the file says. plainTLS asks for TLS where the file says nothing of it.
func (b *brokersFile) options(plainTLS bool) ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if plainTLS && b.TLS == nil {
		b.TLS = &config.TLSConfig{MinVersion: config.TLSVersions["TLS12"]}
	}
	if b.TLS != nil {
		cfg, err := config.NewTLSConfig(b.TLS)
		if err != nil {
			return nil, fmt.Errorf("tls_config: %w", err)
		}
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	if s := b.SASL; s != nil {
		switch as := (scram.Auth{User: s.Username, Pass: s.Password}); s.Mechanism {
		case "PLAIN":
			opts = append(opts, kgo.SASL(plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()))
		case "SCRAM-SHA-256":
			opts = append(opts, kgo.SASL(as.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			opts = append(opts, kgo.SASL(as.AsSha512Mechanism()))
		default:
			return nil, fmt.Errorf("sasl: mechanism %q is none of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", s.Mechanism)
		}
	}
	return opts, nil
}
