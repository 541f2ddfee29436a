// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// fakePrometheus answers a query with the series whose metric it contains, in the form of Prometheus's HTTP API.
func fakePrometheus(t *testing.T, series map[string]string) (*Directory, *[]string) {
	t.Helper()
	var asked []string
	answers := make(chan string, 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		answers <- query
		var found []string
		for metric, s := range series {
			if strings.Contains(query, metric+"{") {
				found = append(found, s)
			}
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(found, ","))
	}))
	t.Cleanup(func() {
		server.Close()
		close(answers)
		for q := range answers {
			asked = append(asked, q)
		}
	})
	client, err := promapi.NewClient(promapi.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return NewDirectory(v1.NewAPI(client), config.Default().Prometheus, func(err error) {
		if err != nil {
			t.Error(err)
		}
	}, clock.System), &asked
}

// The labels are those that dcgm-exporter and node_exporter write.
const dcgmLabels = `"gpu":"3","UUID":"GPU-3","pci_bus_id":"00000000:5D:00.0","device":"nvidia3","modelName":"NVIDIA H100","Hostname":"node-1","container":"","namespace":"","pod":""`

func TestX2FactsOfOtherExporters(t *testing.T) {
	at := func(metric, labels, value string) (string, string) {
		return metric, fmt.Sprintf(`{"metric":{"__name__":%q,%s},"value":[1,%q]}`, metric, labels, value)
	}
	rankAt := func(host, uuid, _ string) int {
		if host == "node-1" && uuid == "GPU-3" {
			return 11
		}
		return -1
	}
	for _, c := range []struct {
		name                  string
		metric, labels, value string
		want                  []rca.Fact
	}{
		{
			"an XID of dcgm-exporter", "DCGM_FI_DEV_XID_ERRORS", dcgmLabels, "79",
			[]rca.Fact{{Host: "node-1", Rank: 11, Component: "gpu", Device: "nvidia3", Kind: "xid", Value: 79}},
		},
		{
			"thermal slowdown", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", dcgmLabels, "65", // 0x41: idle and HW thermal.
			[]rca.Fact{{Host: "node-1", Rank: 11, Component: "gpu", Device: "nvidia3", Kind: "clock_throttled", Value: 0x40}},
		},
		{
			"the same under its older name", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", dcgmLabels, "8",
			[]rca.Fact{{Host: "node-1", Rank: 11, Component: "gpu", Device: "nvidia3", Kind: "clock_throttled", Value: 8}},
		},
		{"an idle GPU", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", dcgmLabels, "1", nil},
		{"a power cap", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", dcgmLabels, "4", nil},
		{"somebody else's GPU", "DCGM_FI_DEV_XID_ERRORS", strings.Replace(dcgmLabels, "GPU-3", "GPU-4", 1), "79", nil},
		{"somebody else's host", "DCGM_FI_DEV_XID_ERRORS", strings.Replace(dcgmLabels, "node-1", "node-10", 1), "79", nil},
		{
			"CPU pressure of node_exporter", "node_pressure_cpu_waiting_seconds_total", `"instance":"node-1:9100","job":"node"`, "0.6",
			[]rca.Fact{{Host: "node-1", Rank: -1, Component: "cpu", Kind: "cpu_pressure", Value: 0.6}},
		},
		{
			"a port that is down", "node_infiniband_state_id", `"instance":"node-1:9100","device":"mlx5_2","port":"1"`, "1",
			[]rca.Fact{{Host: "node-1", Rank: -1, Component: "nic", Device: "mlx5_2", Kind: "port_down", Value: 1, Expected: 4}},
		},
		{"no number", "node_infiniband_state_id", `"instance":"node-1:9100","device":"mlx5_2","port":"1"`, "NaN", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			metric, series := at(c.metric, c.labels, c.value)
			d, _ := fakePrometheus(t, map[string]string{metric: series})
			got := d.Facts(t.Context(), []string{"node-1", "node-2"}, rankAt)
			for i := range got {
				if got[i].Text == "" {
					t.Error("a fact has no words")
				}
				got[i].Text = ""
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFactsAskForTheJobsHosts(t *testing.T) {
	var asked *[]string
	t.Run("ask", func(t *testing.T) {
		var d *Directory
		d, asked = fakePrometheus(t, nil)
		d.Facts(t.Context(), []string{"node-1.example.org", "node-2"}, func(string, string, string) int { return -1 })
	})
	if len(*asked) != len(config.Default().Prometheus.NodeEvidence) {
		t.Errorf("%d queries", len(*asked))
	}
	for _, q := range *asked {
		if !strings.Contains(q, `node-1\\.example\\.org|node-2`) {
			t.Errorf("%s does not ask for the hosts", q)
		}
	}
	none := NewDirectory(nil, config.Default().Prometheus, func(error) {}, clock.System)
	if got := none.Facts(t.Context(), []string{"a"}, nil); got != nil {
		t.Errorf("without Prometheus: %v", got)
	}
}

func TestHostOfALabel(t *testing.T) {
	hosts := []string{"node-1", "node-2.example.org"}
	for label, want := range map[string]string{
		"node-1": "node-1", "node-1:9100": "node-1", "node-1.example.org": "node-1", "node-1.example.org:9100": "node-1",
		"node-2": "node-2.example.org", "node-2.example.org:9100": "node-2.example.org", "node-2.other.org": "", "node-11": "", "": "",
	} {
		if got := hostOf(label, hosts); got != want {
			t.Errorf("%q is %q, want %q", label, got, want)
		}
	}
}

func TestRankAt(t *testing.T) {
	s := &Session{processes: map[int]Process{
		4: {Host: "a", GPU: "0", Labels: map[string]string{"gpu_uuid": "GPU-x"}}, 5: {Host: "a", GPU: "1", Labels: map[string]string{}},
		6: {Host: "b", GPU: "0", Labels: map[string]string{}},
	}}
	for _, c := range []struct {
		host, uuid, gpu string
		want            int
	}{{"a", "GPU-x", "7", 4}, {"a", "", "1", 5}, {"a", "GPU-y", "0", -1}, {"b", "GPU-z", "0", 6}, {"c", "", "0", -1}} {
		if got := s.rankAt(c.host, c.uuid, c.gpu); got != c.want {
			t.Errorf("%+v: rank %d", c, got)
		}
	}
}
