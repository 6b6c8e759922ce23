package rendezvous

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// survey queries the other nodes of the service, so that all nodes show the same status page.
type survey struct {
	srv   *Server
	peers PeerBus

	mu    sync.Mutex // held while the nodes are queried: other callers wait, and get the same answers
	asked time.Time
	found map[string][]activity // by environment
}

// surveyAnswer is the answer of a node. The question is the name of an environment. The answer has
// the environments whose names sort after it.
type surveyAnswer struct {
	Environments []activity `json:"environments"`
	More         bool       `json:"more"` // query again, after the last of these
}

// newSurvey returns the survey of a service and lets it answer the questions of other nodes. It
// returns nil if the service is one process.
func newSurvey(srv *Server) *survey {
	peers, ok := srv.bus.(PeerBus)
	if !ok {
		return nil
	}
	v := &survey{srv: srv, peers: peers}
	peers.Answer(v.answer)
	return v
}

// answer answers a question of another node. Environments that do not fit into surveyBytes are left
// for the next question.
func (v *survey) answer(after string) []byte {
	var list surveyAnswer
	size := 0
	for _, e := range v.srv.activities() {
		if e.Environment <= after {
			continue
		}
		text, err := json.Marshal(e)
		if size += len(text); err != nil || size > surveyBytes && len(list.Environments) > 0 {
			list.More = true
			break
		}
		list.Environments = append(list.Environments, e)
	}
	text, err := json.Marshal(list)
	if err != nil {
		v.srv.log.Error("cannot answer another node about the environments", "error", err)
	}
	return text
}

// all returns the answers of the other nodes, which are at most surveyAge old. It waits at most
// surveyTime, and omits nodes that do not answer. The caller must not change the result.
func (v *survey) all() map[string][]activity {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.asked) < surveyAge {
		return v.found
	}
	// The context of the request is not used, because other requests wait for the same answers even
	// if its client disconnects.
	ctx, cancel := context.WithTimeout(v.srv.ctx, surveyTime)
	defer cancel()
	nodes := v.peers.Peers()
	answers := make([][]activity, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { answers[i] = v.ask(ctx, node) })
	}
	asking.Wait()
	found := make(map[string][]activity)
	for _, e := range slices.Concat(answers...) {
		found[e.Environment] = append(found[e.Environment], e)
	}
	v.asked, v.found = time.Now(), found
	return found
}

// ask returns the answer of a node. If the node stops answering, ask returns the parts that have
// arrived.
func (v *survey) ask(ctx context.Context, node string) []activity {
	var list []activity
	after := ""
	for len(list) < surveyEnvironments {
		text, err := v.peers.Ask(ctx, node, after)
		var answer surveyAnswer
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			v.srv.log.Debug("another node does not answer", "node", node, "error", err)
			return list
		}
		list = append(list, answer.Environments...)
		if !answer.More || len(answer.Environments) == 0 || list[len(list)-1].Environment <= after {
			return list
		}
		after = list[len(list)-1].Environment
	}
	return list
}
