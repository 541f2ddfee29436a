// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const slurmConf = `# Two leaves below a spine.
SwitchName=leaf0 Nodes=tux[0-3]
SwitchName=leaf1 Nodes=tux[4-6],\
tux7 LinkSpeed=400
SwitchName=spine Switches=leaf[0-1]
`

// ncclTopo has the form of NCCL's dumps: two sockets, two GPUs and one NIC below each socket's PCI switch, and a spare NIC.
const ncclTopo = `<system version="1">
  <cpu numaid="0" arch="x86_64">
    <pci busid="0000:04:00.0" class="0x060400">
      <pci busid="0000:05:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
      <pci busid="0000:06:00.0" class="0x030200"><gpu dev="1" sm="90" rank="1" gdr="1"/></pci>
      <pci busid="0000:07:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" port="1" speed="400000"/></nic></pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64">
    <pci busid="0000:84:00.0" class="0x060400">
      <pci busid="0000:85:00.0" class="0x030200"><gpu dev="2" sm="90" rank="2" gdr="1"/></pci>
      <pci busid="0000:86:00.0" class="0x030200"><gpu dev="3" sm="90" rank="3" gdr="1"/></pci>
      <pci busid="0000:87:00.0" class="0x020700"><nic><net name="mlx5_1" dev="1" port="1"/><net name="mlx5_2" dev="2" port="2"/></nic></pci>
    </pci>
  </cpu>
</system>`

const ownFile = `
hosts:
  - nics: {0: mlx5_0, 1: mlx5_1}
  - {names: odd-1, nics: {0: mlx5_7}}
switches:
  - {name: rail0, hosts: "node-[00-03]", nics: [mlx5_0]}
  - {name: rail1, hosts: "node-[00-03]", nics: [mlx5_1]}
  - {name: spine-a, switches: "rail[0-1]"}
  - {name: spine-b, switches: "rail[0-1]"}
`

func open(name string) (io.ReadCloser, error) { return os.Open(name) }

// load writes texts to files and loads them.
func load(t *testing.T, slurm, nccl, own string) (*Topology, error) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		if text == "" {
			return ""
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return Load(open, Files{Slurm: write("topology.conf", slurm), NCCL: write("topo.xml", nccl), File: write("topology.yaml", own)})
}

func names(ds []Device) []string {
	var out []string
	for _, d := range ds {
		out = append(out, d.Name)
	}
	slices.Sort(out)
	return out
}

func TestH5Paths(t *testing.T) {
	for _, c := range []struct {
		name             string
		slurm, nccl, own string
		a, b             Place
		want             []string
	}{
		{"nothing known", "", "", "", Place{"a", "0", ""}, Place{"b", "3", ""}, []string{"a/nic0", "a/nic0-b/nic3", "b/nic3"}},
		{"one host", slurmConf, "", "", Place{"tux0", "0", ""}, Place{"tux0", "1", ""}, nil},
		{
			"Slurm, one leaf", slurmConf, "", "",
			Place{"tux0", "0", ""},
			Place{"tux3", "0", ""},
			[]string{"leaf0", "tux0/nic0", "tux0/nic0-leaf0", "tux3/nic0", "tux3/nic0-leaf0"},
		},
		{
			"Slurm and NCCL, over the spine", slurmConf, ncclTopo, "",
			Place{"tux0", "1", ""},
			Place{"tux7", "2", ""},
			[]string{"leaf0", "leaf0-spine", "leaf1", "leaf1-spine", "spine", "tux0/mlx5_0", "tux0/mlx5_0-leaf0", "tux7/mlx5_1", "tux7/mlx5_1-leaf1"},
		},
		{
			"own, one rail", "", "", ownFile,
			Place{"node-00", "0", ""},
			Place{"node-03", "0", ""},
			[]string{"node-00/mlx5_0", "node-00/mlx5_0-rail0", "node-03/mlx5_0", "node-03/mlx5_0-rail0", "rail0"},
		},
		{
			"own, rails over either spine", "", "", ownFile,
			Place{"node-00", "0", ""},
			Place{"node-03", "1", ""},
			[]string{
				"node-00/mlx5_0", "node-00/mlx5_0-rail0", "node-03/mlx5_1", "node-03/mlx5_1-rail1", "rail0", "rail0-spine-a", "rail0-spine-b",
				"rail1", "rail1-spine-a", "rail1-spine-b", "spine-a", "spine-b",
			},
		},
		{
			"the rank knows its NIC", "", "", ownFile,
			Place{"node-00", "0", "mlx5_1"},
			Place{"node-01", "1", ""},
			[]string{"node-00/mlx5_1", "node-00/mlx5_1-rail1", "node-01/mlx5_1", "node-01/mlx5_1-rail1", "rail1"},
		},
		{"no way is known", slurmConf, "", "", Place{"tux0", "0", ""}, Place{"login", "0", ""}, []string{"login/nic0", "tux0/nic0"}},
	} {
		top, err := load(t, c.slurm, c.nccl, c.own)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		slices.Sort(c.want)
		if got := names(top.Path(c.a, c.b)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
		if got := names(top.Path(c.b, c.a)); !slices.Equal(got, c.want) {
			t.Errorf("%s, the other way:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

func TestH5NearestNIC(t *testing.T) {
	top, err := NCCL(strings.NewReader(ncclTopo))
	if err != nil {
		t.Fatal(err)
	}
	// GPUs 2 and 3 have two equally near NICs and take one each; GPUs 0 and 1 share theirs.
	for gpu, want := range map[string]string{"0": "h/mlx5_0", "1": "h/mlx5_0", "2": "h/mlx5_1", "3": "h/mlx5_2"} {
		if got := top.NIC(Place{Host: "h", GPU: gpu}).Name; got != want {
			t.Errorf("GPU %s uses %s, want %s", gpu, got, want)
		}
	}
	own, err := Own(strings.NewReader(ownFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := own.NIC(Place{Host: "odd-1", GPU: "0"}).Name; got != "odd-1/mlx5_7" {
		t.Errorf("the odd host's GPU 0 uses %s", got)
	}
	if got := own.GPU(Place{Host: "h", GPU: "3"}); got != (Device{Name: "h/gpu3", Kind: GPU}) {
		t.Errorf("GPU is %+v", got)
	}
}

// TestH5Below: the decay of a switch needs the number of NICs below it.
func TestH5Below(t *testing.T) {
	top, err := load(t, slurmConf, ncclTopo, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range top.Path(Place{Host: "tux0", GPU: "0"}, Place{Host: "tux7", GPU: "0"}) {
		want := map[string]int{"leaf0": 12, "leaf1": 12, "spine": 24}[d.Name]
		if d.Below != want {
			t.Errorf("%s has %d NICs below it, want %d", d.Name, d.Below, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, slurm, nccl, own, want string }{
		{"no name", "Nodes=a\n", "", "", "0 switches are named"},
		{"not an assignment", "SwitchName\n", "", "", "no assignment"},
		{"unknown key", "SwitchName=a Nodez=b\n", "", "", "not known"},
		{"open bracket", "SwitchName=a Nodes=b[0-1\n", "", "", "not closed"},
		{"closed bracket", "SwitchName=a Nodes=b0]\n", "", "", "not opened"},
		{"not a range", "SwitchName=a Nodes=b[3-1]\n", "", "", "no range"},
		{"too many", "SwitchName=a Nodes=b[0-1023][0-1023][0-1023]\n", "", "", "too many"},
		{"circle", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "", "", "stands above itself"},
		{"no XML", "", "<system", "", "reading NCCL topology"},
		{"no GPU", "", "<system/>", "", "no GPU"},
		{"odd GPU", "", `<system><gpu dev="x"/></system>`, "", "no number"},
		{"nameless net", "", `<system><gpu dev="0"/><net/></system>`, "", "without a name"},
		{"unknown field", "", "", "switchez: []\n", "switchez"},
		{"nameless switch", "", "", "switches: [{hosts: a}]\n", "no name"},
		{"odd hosts", "", "", "switches: [{name: a, hosts: 'b['}]\n", "not closed"},
	} {
		if _, err := load(t, c.slurm, c.nccl, c.own); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Load(open, Files{Slurm: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a file that is not there is read")
	}
	if top, err := Load(open, Files{}); top != nil || err != nil {
		t.Errorf("nothing configured gives %v, %v", top, err)
	}
}

func TestExpand(t *testing.T) {
	for list, want := range map[string][]string{
		"a":              {"a"},
		"a[08-11]":       {"a08", "a09", "a10", "a11"},
		"a[0,3-4]-ib, b": {"a0-ib", "a3-ib", "a4-ib", "b"},
		"r[0-1]n[0-1]":   {"r0n0", "r0n1", "r1n0", "r1n1"},
		"":               nil,
	} {
		if got, err := expand(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
}

func fuzz(f *testing.F, seed string, read func(string) (*Topology, error)) {
	f.Helper()
	f.Add(seed)
	f.Fuzz(func(t *testing.T, text string) {
		top, err := read(text)
		if err != nil || top.finish() != nil {
			return
		}
		if p := top.Path(Place{Host: "tux0", GPU: "0"}, Place{Host: "tux7", GPU: "1"}); len(p) < 1 {
			t.Errorf("path %v", p)
		}
	})
}

func FuzzSlurm(f *testing.F) {
	fuzz(f, slurmConf, func(s string) (*Topology, error) { return Slurm(strings.NewReader(s)) })
}

func FuzzNCCL(f *testing.F) {
	fuzz(f, ncclTopo, func(s string) (*Topology, error) { return NCCL(strings.NewReader(s)) })
}

func FuzzOwn(f *testing.F) {
	fuzz(f, ownFile, func(s string) (*Topology, error) { return Own(strings.NewReader(s)) })
}
