package rca

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestZZ(t *testing.T) {
	f := os.Getenv("ZZ")
	if f == "" {
		return
	}
	b, _ := os.ReadFile(f)
	var ev Evidence
	if err := json.Unmarshal(b, &ev); err != nil {
		t.Fatal(err)
	}
	o := Options{}
	x := newIndex(&ev, o.withDefaults())
	tl := newTimeline(x, ev.Timeline)
	a := &slowAnalysis{timeline: tl, onset: 1, series: tl.iterationTimes()}
	k, r := changePoint(a.series)
	fmt.Println("change", k, r, "iters", tl.iters, "roles", tl.roles, tl.role, "jobs", len(tl.jobs), len(tl.order))
	a.base = newBaseline(a.timeline, a.early)
	a.replay = newReplay(a.timeline)
	a.walk = a.walkBack()
	a.iterTime = a.replay.base / float64(max(1, a.iters))
	fmt.Println("iterTime", a.iterTime/1e6, "pipelined", a.pipelined())
	st, ok := a.stage()
	fmt.Printf("stage %+v %v\n", st, ok)
	for _, s := range a.stagesOf() {
		fmt.Printf("%+v\n", s)
	}
	ro, ok := a.rotating()
	fmt.Printf("rot %+v %v\n", ro, ok)
	for _, n := range []int{0, 2} {
		for k, i := range a.ranks[n] {
			s := &a.segs[i]
			if k > 200 {
				break
			}
			if s.iter != 3 {
				continue
			}
			fmt.Printf("%d %-28s seq %d start %.4f end %.4f enter %.4f stay %.4f gap %.4f also %v pred %v it %d\n", n, s.Func, s.Seq, float64(s.Start)/1e9, float64(s.End)/1e9, float64(s.enter)/1e9, float64(s.stay)/1e9, float64(s.gap)/1e9, s.also, s.pred, s.iter)
		}
	}
	w := ownWorkOf(a.timeline)
	fmt.Println(w)
}
