// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/exporter/look"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Looker takes a close look at a process.
type Looker interface {
	Look(ctx context.Context, t look.Target) (nodeapi.LookedAt, error)
}

// RegisterLook adds the path that takes a close look at processes. Unless everybody may look, the client must have proved who it is.
func (a *API) RegisterLook(mux *http.ServeMux, looker Looker, everybody bool) {
	mux.Handle("GET "+nodeapi.LookPath, a.looks.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, _ := access.Client(r.Context()); name == "" && !everybody {
			http.Error(w, "a close look is for clients with a password or certificate: see --web.config.file and --look", http.StatusForbidden)
			return
		}
		a.look(w, r, looker)
	})))
}

// RegisterNoLook has that path say why it does nothing.
func (a *API) RegisterNoLook(mux *http.ServeMux) {
	mux.HandleFunc("GET "+nodeapi.LookPath, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the exporter takes no close looks: see --look", http.StatusForbidden)
	})
}

func (a *API) look(w http.ResponseWriter, r *http.Request, looker Looker) {
	q, err := parseQuery(r.URL.Query())
	pids, pidsErr := parsePIDs(r.URL.Query()["pid"])
	switch err = cmp.Or(err, pidsErr); {
	case err != nil:
	case len(q.JobIDs) == 0 || len(q.Ranks) == 0:
		err = errors.New("job_id and rank are required: say whom to look at")
	case len(q.Ranks) > nodeapi.MaxLooked:
		err = fmt.Errorf("%d ranks are too many for one look, which takes %d", len(q.Ranks), nodeapi.MaxLooked)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	list := a.sampler.Living(q)
	if len(pids) > 0 {
		list = slices.DeleteFunc(list, func(p node.Followed) bool { return !slices.Contains(pids, p.PID) })
	}
	answer := nodeapi.Look{Version: nodeapi.Version, Node: a.sampler.HostName(), Processes: lookAt(r.Context(), list, looker)}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	body, finish := compressed(w, r)
	if len(answer.Processes) == 0 {
		w.WriteHeader(http.StatusNotFound)
	}
	err = json.NewEncoder(body).Encode(answer)
	if err := errors.Join(err, finish()); err != nil {
		a.log.Debug("Writing a look", "remote", r.RemoteAddr, "err", err)
	}
}

func parsePIDs(texts []string) ([]int, error) {
	var pids []int
	for _, s := range texts {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("pid %q is not a number", s)
		}
		pids = append(pids, int(n))
	}
	return pids, nil
}

// lookAt looks at processes side by side: they are to be compared.
func lookAt(ctx context.Context, list []node.Followed, looker Looker) []nodeapi.LookedAt {
	list = list[:min(len(list), nodeapi.MaxLooked)]
	out := make([]nodeapi.LookedAt, len(list))
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() {
			at, err := looker.Look(ctx, look.Target{PID: p.PID, StartTicks: p.StartTicks})
			if err != nil {
				at = nodeapi.LookedAt{PID: p.PID, Missing: []string{"The process was not looked at: " + err.Error() + "."}}
			}
			at.File, at.JobID, at.Rank = p.File, p.JobID, p.Rank
			out[i] = at
		})
	}
	wg.Wait()
	return out
}
