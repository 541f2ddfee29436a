// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/culprit-project/culprit/internal/ports"
)

// Storage is what keeps the series, evaluates the rules and answers queries.
type Storage int

// What sites have.
const (
	Prometheus Storage = iota
	Victoria           // VictoriaMetrics, which scrapes, too, and vmalert.
	Thanos             // A Prometheus with a sidecar for each host, Thanos Query over them, and Thanos Ruler.
	Mimir              // A Prometheus that scrapes and writes to Mimir, as one of its tenants.
)

const (
	mimirFile    = "mimir.yml"
	tenantHeader = "X-Scope-OrgID"
	tenant       = "culprit" // Of Mimir.
)

// scraper is a Prometheus that has no rules and is not asked by the analyzer.
type scraper struct {
	prometheus, sidecar *process
	addr, grpcAddr      string // Of Prometheus and, with Thanos, of the sidecar's store.
}

func (s *Stack) startStorage() error {
	switch s.cfg.Storage {
	case Victoria:
		return s.startVictoria()
	case Thanos:
		return s.startThanos()
	case Mimir:
		return s.startMimir()
	default:
		var err error
		s.prometheus, err = s.startPrometheus("prometheus", s.prometheusAddr, prometheusParams{Rules: s.rules(), Exporters: s.hosts})
		return err
	}
}

// waitStorage waits until the storage answers, and gives it the rules where that takes a request or a process that needs it.
func (s *Stack) waitStorage(ctx context.Context) error {
	for _, sc := range s.scrapers {
		if err := sc.prometheus.waitHTTP(ctx, "http://"+sc.addr+"/-/ready"); err != nil {
			return err
		}
	}
	ready := "/-/ready"
	if s.cfg.Storage == Mimir {
		ready = "/ready"
	}
	if err := s.prometheus.waitHTTP(ctx, "http://"+s.prometheusAddr+ready); err != nil {
		return err
	}
	switch s.cfg.Storage {
	case Victoria:
		if err := s.startVMAlert(); err != nil {
			return err
		}
	case Mimir:
		return s.loadRules(ctx)
	case Prometheus, Thanos:
	}
	if s.ruler == nil {
		return nil
	}
	return s.ruler.waitHTTP(ctx, s.RulesURL()+"/-/ready")
}

// startPrometheus starts a Prometheus with a configuration of its own.
func (s *Stack) startPrometheus(name, addr string, params prometheusParams) (*process, error) {
	file, err := s.writePrometheus(name, params)
	if err != nil {
		return nil, err
	}
	return startProcess(s.cfg.Dir, name, nil, nil, filepath.Join(s.cfg.ToolsDir, "prometheus"),
		"--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(s.cfg.Dir, name+"-data"),
		"--web.listen-address="+addr,
		"--log.level=warn",
	)
}

func (s *Stack) startVictoria() error {
	// It takes Prometheus's configuration, but for rules, which are vmalert's.
	file, err := s.writePrometheus("victoria-metrics", prometheusParams{Rules: s.rules(), Exporters: s.hosts})
	if err != nil {
		return err
	}
	s.prometheus, err = startProcess(s.cfg.Dir, "victoria-metrics", nil, nil, filepath.Join(s.cfg.ToolsDir, "victoria-metrics"),
		"-promscrape.config="+file,
		"-promscrape.config.strictParse=false",
		"-storageDataPath="+filepath.Join(s.cfg.Dir, "victoria-data"),
		"-httpListenAddr="+s.prometheusAddr,
		"-search.latencyOffset=0s",
		"-loggerLevel=WARN",
	)
	return err
}

// startVMAlert starts vmalert, which waits half a minute where it cannot write its first series.
func (s *Stack) startVMAlert() (err error) {
	s.ruler, err = startProcess(s.cfg.Dir, "vmalert", nil, nil, filepath.Join(s.cfg.ToolsDir, "vmalert"),
		"-rule="+s.rules(),
		"-datasource.url="+s.PrometheusURL(), "-remoteRead.url="+s.PrometheusURL(), "-remoteWrite.url="+s.PrometheusURL(),
		"-notifier.url="+s.AlertmanagerURL(),
		"-evaluationInterval="+s.cfg.Interval.String(),
		"-rule.evalDelay=0s",
		"-httpListenAddr="+s.rulerAddr,
		"-loggerLevel=WARN",
	)
	return err
}

// startThanos gives each host's exporter to a Prometheus of its own. Thanos Query asks all of them and the ruler, strictly: a store that
// does not answer makes an answer partial, which its warnings say. A store that is not strict is left out without a word after some seconds.
// By default the ruler evaluates nothing while a store does not answer.
func (s *Stack) startThanos() error {
	const perHost = 3 // Addresses: Prometheus, sidecar, its store.
	addrs, err := ports.Free(perHost*len(s.hosts) + 2)
	if err != nil {
		return err
	}
	rulerStore, queryStore := addrs[perHost*len(s.hosts)], addrs[perHost*len(s.hosts)+1]
	program := filepath.Join(s.cfg.ToolsDir, "thanos")
	stores := []string{rulerStore}
	for i := range s.hosts {
		sc := scraper{addr: addrs[perHost*i], grpcAddr: addrs[perHost*i+2]}
		name := "prometheus-" + strconv.Itoa(i)
		sc.prometheus, err = s.startPrometheus(name, sc.addr, prometheusParams{
			// Thanos tells its stores by external labels.
			External: map[string]string{"shard": strconv.Itoa(i)}, Exporters: s.hosts[i : i+1], WithoutAnalyzer: i > 0,
		})
		if err != nil {
			return err
		}
		sc.sidecar, err = startProcess(s.cfg.Dir, "sidecar-"+strconv.Itoa(i), nil, nil, program, "sidecar",
			"--prometheus.url=http://"+sc.addr, "--tsdb.path="+filepath.Join(s.cfg.Dir, name+"-data"),
			"--http-address="+addrs[perHost*i+1], "--grpc-address="+sc.grpcAddr, "--prometheus.get_config_interval=1s", "--log.level=warn",
		)
		s.scrapers = append(s.scrapers, sc)
		if err != nil {
			return err
		}
		stores = append(stores, sc.grpcAddr)
	}
	query := []string{
		"query", "--http-address=" + s.prometheusAddr, "--grpc-address=" + queryStore, "--query.replica-label=ruler", "--log.level=warn",
	}
	for _, store := range stores {
		query = append(query, "--endpoint-strict="+store)
	}
	if s.prometheus, err = startProcess(s.cfg.Dir, "thanos-query", nil, nil, program, query...); err != nil {
		return err
	}
	rules, err := s.partialRules()
	if err != nil {
		return err
	}
	s.ruler, err = startProcess(s.cfg.Dir, "thanos-rule", nil, nil, program, "rule",
		"--query=http://"+s.prometheusAddr, "--rule-file="+rules, "--eval-interval="+s.cfg.Interval.String(),
		"--alertmanagers.url="+s.AlertmanagerURL(), "--label=ruler=\"0\"", "--alert.label-drop=ruler",
		"--data-dir="+filepath.Join(s.cfg.Dir, "thanos-rule-data"), "--http-address="+s.rulerAddr, "--grpc-address="+rulerStore, "--log.level=warn",
	)
	return err
}

// partialRules writes the rules as docs/clusters.md has them changed for Thanos's ruler, and gives them as a glob.
func (s *Stack) partialRules() (glob string, err error) {
	paths, err := filepath.Glob(s.rules())
	if err != nil {
		return "", fmt.Errorf("finding the rules: %w", err)
	}
	into := filepath.Join(s.cfg.Dir, "thanos-rules")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for rules: %w", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the rules: %w", err)
		}
		changed := strings.ReplaceAll(string(text), "\n  - interval:", "\n  - partial_response_strategy: warn\n    interval:")
		if err := os.WriteFile(filepath.Join(into, filepath.Base(path)), []byte(changed), 0o644); err != nil {
			return "", fmt.Errorf("writing the rules: %w", err)
		}
	}
	return filepath.Join(into, "*.yaml"), nil
}

// LoseStore ends the Prometheus of a host and its sidecar, with Thanos.
func (s *Stack) LoseStore(host int) {
	s.scrapers[host].sidecar.stop()
	s.scrapers[host].prometheus.stop()
}

// startGateway passes what Prometheus writes on to Mimir and adds the tenant: Debian's Prometheus 2.42 leaves out headers that
// remote_write has in its configuration.
func (s *Stack) startGateway() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listening for Prometheus: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.prometheusAddr})
			r.Out.Header.Set(tenantHeader, tenant)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // Prometheus sends again until Mimir is up.
	}
	s.gateway = &http.Server{Handler: proxy, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.gateway.Serve(l) }()
	return l.Addr().String(), nil
}

// startMimir starts all of Mimir in one process, which tells nobody of itself.
func (s *Stack) startMimir() error {
	addrs, err := ports.Free(3)
	if err != nil {
		return err
	}
	host, port, err := split(s.prometheusAddr)
	if err != nil {
		return err
	}
	_, grpcPort, err := split(addrs[0])
	if err != nil {
		return err
	}
	_, gossipPort, err := split(addrs[2])
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(s.cfg.Dir, "mimir-"+name) }
	type m = map[string]any
	ring := m{"kvstore": m{"store": "inmemory"}, "instance_addr": host}
	config, err := yaml.Marshal(m{
		"multitenancy_enabled": true,
		"usage_stats":          m{"enabled": false},
		"server":               m{"http_listen_address": host, "http_listen_port": port, "grpc_listen_address": host, "grpc_listen_port": grpcPort, "log_level": "warn"},
		"common":               m{"storage": m{"backend": "filesystem", "filesystem": m{"dir": in("common")}}},
		"blocks_storage":       m{"storage_prefix": "blocks", "tsdb": m{"dir": in("tsdb")}, "bucket_store": m{"sync_dir": in("sync")}},
		"compactor":            m{"data_dir": in("compactor"), "sharding_ring": ring},
		"distributor":          m{"ring": ring},
		"ingester":             m{"ring": m{"kvstore": m{"store": "inmemory"}, "instance_addr": host, "replication_factor": 1, "min_ready_duration": "0s"}},
		"store_gateway":        m{"sharding_ring": m{"kvstore": m{"store": "inmemory"}, "instance_addr": host, "replication_factor": 1}},
		"query_scheduler":      m{"ring": ring},
		"frontend":             m{"address": host},
		"memberlist":           m{"bind_addr": []string{host}, "bind_port": gossipPort},
		"ruler": m{
			"rule_path": in("rules"), "alertmanager_url": s.AlertmanagerURL(), "evaluation_interval": s.cfg.Interval.String(), "poll_interval": "1s", "ring": ring,
		},
		"ruler_storage": m{"storage_prefix": "ruler"},
		// The default evaluates the rules of a minute ago.
		"limits": m{"ruler_evaluation_delay_duration": "0s"},
	})
	if err != nil {
		return fmt.Errorf("rendering the configuration of Mimir: %w", err)
	}
	file := filepath.Join(s.cfg.Dir, mimirFile)
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return fmt.Errorf("writing the configuration of Mimir: %w", err)
	}
	if s.prometheus, err = startProcess(s.cfg.Dir, "mimir", nil, nil, filepath.Join(s.cfg.ToolsDir, "mimir"), "-config.file="+file); err != nil {
		return err
	}
	gateway, err := s.startGateway()
	if err != nil {
		return err
	}
	sc := scraper{addr: addrs[1]}
	sc.prometheus, err = s.startPrometheus("prometheus", sc.addr, prometheusParams{Exporters: s.hosts, RemoteWrite: "http://" + gateway + "/api/v1/push"})
	if err != nil {
		return err
	}
	s.scrapers = append(s.scrapers, sc)
	return nil
}

// loadRules posts the groups of the rule files to Mimir's ruler, one by one.
func (s *Stack) loadRules(ctx context.Context) error {
	paths, err := filepath.Glob(s.rules())
	if err != nil {
		return fmt.Errorf("finding the rules: %w", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the rules: %w", err)
		}
		var file struct {
			Groups []yaml.MapSlice `yaml:"groups"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		for i := range file.Groups {
			group, err := yaml.Marshal(file.Groups[i])
			if err != nil {
				return fmt.Errorf("rendering a group of %s: %w", path, err)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.PrometheusURL()+"/config/v1/rules/culprit", bytes.NewReader(group))
			if err != nil {
				return fmt.Errorf("giving Mimir the rules: %w", err)
			}
			req.Header.Set("Content-Type", "application/yaml")
			if err := doJSON(req, &struct{}{}); err != nil {
				return fmt.Errorf("giving Mimir group %d of %s: %w", i, path, err)
			}
		}
	}
	return nil
}

// split gives host and port of an address.
func split(addr string) (string, int, error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("reading an address: %w", err)
	}
	return a.Addr().String(), int(a.Port()), nil
}
