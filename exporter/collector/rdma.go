// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/sysfile"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// dataUnit is the unit of port_xmit_data and port_rcv_data: four bytes, by the InfiniBand specification.
const dataUnit = 4

// cnpFact is from how many congestion notifications a second a port counts as congested.
const cnpFact = 1000

// RDMA exports InfiniBand and RoCE ports from sysfs. A counter that a NIC does not have, or that reads "N/A", is left out;
// trouble with one device costs that device only.
type RDMA struct {
	sys sysfile.Root
	now func() time.Time

	mu     sync.Mutex
	counts changes
	cnps   map[string]cnpCount
	rates  map[string]uint64 // Highest rate a port has had, bytes a second.
	nets   *netdevs
}

type cnpCount struct {
	value uint64
	at    time.Time
}

// NewRDMA makes the rdma collector.
func NewRDMA(sys sysfile.Root) *RDMA {
	return &RDMA{sys: sys, now: time.Now, counts: changes{}, cnps: map[string]cnpCount{}, rates: map[string]uint64{}, nets: newNetdevs(string(sys))}
}

func rdmaDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("culprit_rdma_"+name, help, append([]string{"device", "port"}, labels...), nil)
}

var (
	rdmaInfoDesc = rdmaDesc("port_info", "Identity of a port. The value is 1.",
		"link_layer", "firmware", "board", "netdev", "numa_node", "pci_bus_id")
	rdmaUpDesc   = rdmaDesc("port_up", "1 while the port is active.")
	rdmaRateDesc = rdmaDesc("port_rate_bytes_per_second", "Rate that the link was negotiated to.")

	rdmaErrorsDesc     = rdmaDesc("port_errors_total", "Errors that the port counted, by kind.", "kind")
	rdmaTransportDesc  = rdmaDesc("transport_errors_total", "Errors and retries of the reliable transport, by kind.", "kind")
	rdmaCongestionDesc = rdmaDesc("congestion_notifications_total",
		"Congestion notifications: packets marked by a switch, notifications sent and handled.", "kind")
)

// traffic are counters with a metric of their own: the first file that exists counts.
var traffic = []struct {
	desc  *prometheus.Desc
	files []string
	scale float64
}{
	{rdmaDesc("transmit_bytes_total", "Bytes sent."), []string{"counters/port_xmit_data", "counters_ext/port_xmit_data_64"}, dataUnit},
	{rdmaDesc("receive_bytes_total", "Bytes received."), []string{"counters/port_rcv_data", "counters_ext/port_rcv_data_64"}, dataUnit},
	{rdmaDesc("transmit_packets_total", "Packets sent."), []string{"counters/port_xmit_packets", "counters_ext/port_xmit_packets_64"}, 1},
	{rdmaDesc("receive_packets_total", "Packets received."), []string{"counters/port_rcv_packets", "counters_ext/port_rcv_packets_64"}, 1},
	{rdmaDesc("transmit_wait_ticks_total", "Ticks of the port's clock in which it had data and no credit to send it."), []string{"counters/port_xmit_wait"}, 1},
}

// portErrors and transportErrors are the counter files behind a kind.
var (
	portErrors = []string{
		"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
		"port_rcv_switch_relay_errors", "port_xmit_discards", "port_rcv_constraint_errors", "port_xmit_constraint_errors",
		"local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
	}
	transportErrors = []string{
		"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err", "out_of_buffer",
		"duplicate_request", "req_cqe_error", "resp_cqe_error", "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
	}
	congestion = map[string]string{"ecn_marked": "np_ecn_marked_roce_packets", "cnp_sent": "np_cnp_sent", "cnp_handled": "rp_cnp_handled"}
)

// port is one port of an RDMA device.
type port struct {
	device, number string
	dir            string // Below the root.
}

func (r *RDMA) ports() []port {
	var list []port
	for _, dir := range r.sys.Glob("class/infiniband/*/ports/[0-9]*") {
		list = append(list, port{device: path.Base(path.Dir(path.Dir(dir))), number: path.Base(dir), dir: dir})
	}
	return list
}

// Collect implements Collector.
func (r *RDMA) Collect(ctx context.Context, emit func(prometheus.Metric)) error {
	ports := r.ports()
	if len(ports) == 0 {
		return ErrNoData
	}
	r.refreshNetdevs()
	var errs []error
	for _, p := range ports {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := r.port(p, emit); err != nil {
			errs = append(errs, fmt.Errorf("reading port %s of %s: %w", p.number, p.device, err))
		}
	}
	return errors.Join(errs...)
}

func (r *RDMA) port(p port, emit func(prometheus.Metric)) error {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		emit(prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{p.device, p.number}, labels...)...))
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		emit(prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{p.device, p.number}, labels...)...))
	}
	gauge(rdmaInfoDesc, 1, r.describe(p)...)
	state, err := r.stateOf(p)
	if err != nil {
		return err
	}
	up := 0.0
	if state == portActive {
		up = 1
	}
	gauge(rdmaUpDesc, up)
	if rate, err := r.rate(p); err == nil {
		gauge(rdmaRateDesc, float64(rate))
	}
	for _, t := range traffic {
		for _, file := range t.files {
			if v, err := r.sys.Uint(p.dir, file); err == nil {
				counter(t.desc, float64(v)*t.scale)
				break
			}
		}
	}
	for _, kind := range portErrors {
		if v, err := r.sys.Uint(p.dir, "counters", kind); err == nil {
			counter(rdmaErrorsDesc, float64(v), strings.ToLower(kind))
		}
	}
	for _, kind := range transportErrors {
		if v, err := r.sys.Uint(p.dir, "hw_counters", kind); err == nil {
			counter(rdmaTransportDesc, float64(v), kind)
		}
	}
	for kind, file := range congestion {
		if v, err := r.sys.Uint(p.dir, "hw_counters", file); err == nil {
			counter(rdmaCongestionDesc, float64(v), kind)
		}
	}
	return nil
}

// refreshNetdevs maps the interfaces of the node to RDMA devices.
func (r *RDMA) refreshNetdevs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nets.refresh(baseNames(r.sys.Glob("class/net/*")))
}

func baseNames(paths []string) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = path.Base(p)
	}
	return names
}

// describe gives the values of port_info's labels; what is not there stays empty.
func (r *RDMA) describe(p port) []string {
	text := func(elem ...string) string {
		s, _ := r.sys.Text(elem...)
		return s
	}
	device := path.Join("class/infiniband", p.device)
	r.mu.Lock()
	netdev := r.nets.of(p.device, baseNames(r.sys.Glob(path.Join(device, "device/net/*"))))
	r.mu.Unlock()
	bus, _ := r.sys.Link(device, "device")
	return []string{
		text(p.dir, "link_layer"), text(device, "fw_ver"), text(device, "board_id"), netdev, text(device, "device/numa_node"), bus,
	}
}

// portActive is the state of a port that carries traffic.
const portActive = 4

// stateOf reads "4: ACTIVE".
func (r *RDMA) stateOf(p port) (int, error) {
	text, err := r.sys.Text(p.dir, "state")
	if err != nil {
		return 0, err
	}
	id, _, _ := strings.Cut(text, ":")
	state, err := strconv.Atoi(id)
	if err != nil {
		return 0, fmt.Errorf("parsing state: %w", err)
	}
	return state, nil
}

// rate reads "400 Gb/sec (4X NDR)" and gives bytes a second.
func (r *RDMA) rate(p port) (uint64, error) {
	text, err := r.sys.Text(p.dir, "rate")
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(text, " ")
	gbit, err := strconv.ParseFloat(number, 64)
	if err != nil || gbit < 0 || gbit > 1e6 {
		return 0, fmt.Errorf("parsing rate %q", text)
	}
	return uint64(gbit * 1e9 / 8), nil
}

// Facts gives the ports' evidence: ports that went down, links that flapped or lost rate, and congestion. A port that
// has been down since before the exporter started is not used by anybody.
func (r *RDMA) Facts() []nodeapi.Fact {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	var facts []nodeapi.Fact
	for _, p := range r.ports() {
		name := p.device + "/" + p.number
		fact := func(kind string) nodeapi.Fact {
			return nodeapi.Fact{Component: "nic", Device: p.device, Kind: kind, Rank: -1}
		}
		state, err := r.stateOf(p)
		if err != nil {
			continue
		}
		best := r.rates[name]
		if rate, err := r.rate(p); err == nil && state == portActive {
			if rate < best {
				f := fact("port_rate_reduced")
				f.Value, f.Expected, f.Unit = float64(rate)*8/1e9, float64(best)*8/1e9, "Gb/s"
				facts = append(facts, f)
			}
			r.rates[name] = max(rate, best)
		}
		if state != portActive && best > 0 {
			f := fact("port_down")
			f.Expected = 1
			facts = append(facts, f)
		}
		if n, err := r.sys.Uint(p.dir, "counters/link_downed"); err == nil {
			facts = r.counts.fact(facts, name+"/downed", n, now, fact("link_downed"))
		}
		if n, err := r.sys.Uint(p.dir, "hw_counters/local_ack_timeout_err"); err == nil {
			facts = r.counts.fact(facts, name+"/timeout", n, now, fact("ack_timeout"))
		}
		facts = r.congested(facts, p, name, now, fact("cnp_rate"))
	}
	return facts
}

// congested adds a fact when the port is told to slow down.
func (r *RDMA) congested(facts []nodeapi.Fact, p port, name string, now time.Time, f nodeapi.Fact) []nodeapi.Fact {
	n, err := r.sys.Uint(p.dir, "hw_counters", congestion["cnp_handled"])
	if err != nil {
		return facts
	}
	last, seen := r.cnps[name]
	r.cnps[name] = cnpCount{n, now}
	seconds := now.Sub(last.at).Seconds()
	if !seen || seconds <= 0 || n < last.value {
		return facts
	}
	if rate := float64(n-last.value) / seconds; rate >= cnpFact {
		f.Value, f.Unit = rate, "1/s"
		facts = append(facts, f)
	}
	return facts
}
