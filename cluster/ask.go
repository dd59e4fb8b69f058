package cluster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/upgrade"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Nodes ask each other questions by name, with JSON in and out: what is rare and need not be fast.

// askTimeout bounds the answer to a question.
const askTimeout = 2 * time.Second

const (
	askStatus = "status"
	askMember = "member"
	askFresh  = "fresh"
)

// answers are the questions that a Cluster answers itself.
func (c *Cluster) answers() map[string]func([]byte) ([]byte, error) {
	return map[string]func([]byte) ([]byte, error){
		askStatus:      answer(func(struct{}) (*part, error) { return c.part(), nil }),
		askMember:      answer(func(q memberQuery) (memberReply, error) { return c.onMember(q), nil }),
		askFresh:       answer(func(q freshQuery) (freshReply, error) { return c.onFresh(q), nil }),
		askCopies:      answer(func(q copiesQuery) (copiesReply, error) { return c.onCopies(q), nil }),
		askLeaders:     answer(func(struct{}) ([]LeaderRow, error) { return c.LeaderRows(), nil }),
		askLeaderMoves: answer(func(struct{}) ([]LeaderMove, error) { return c.LeaderMoves(), nil }),
		askHealth:      answer(func(struct{}) ([]NodeHealth, error) { return c.nodeHealth(), nil }),
		askVersion:     answer(func(q upgrade.Query) (upgrade.Reply, error) { return c.onVersion(q), nil }),
		askRegion:      answer(func(q regionQuery) (regionReply, error) { return c.onRegion(q), nil }),
		askHand:        answer(func(q handQuery) (bool, error) { return true, c.handLead(q) }),
	}
}

// answer makes JSON of a question and its answer. A question without a body asks for nothing in
// particular.
func answer[Q, A any](f func(Q) (A, error)) func([]byte) ([]byte, error) {
	return func(body []byte) ([]byte, error) {
		var q Q
		if len(body) > 0 {
			if err := json.Unmarshal(body, &q); err != nil {
				return nil, base.Errorf(base.CodeInvalid, "malformed question: %v", err)
			}
		}
		a, err := f(q)
		if err != nil {
			return nil, err
		}
		return json.Marshal(a)
	}
}

func (c *Cluster) onAsk(_ context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.AskRequest
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed request from node %d: %v", from, err)
	}
	if f := c.answered[q.Name]; f != nil {
		b, err := f(q.Body)
		if err != nil {
			return nil, err
		}
		return &wire.AskResponse{Body: b}, nil
	}
	if c.options.Process.Answer != nil {
		if b, err := c.options.Process.Answer(q.Name, q.Body); b != nil || err != nil {
			return &wire.AskResponse{Body: b}, err
		}
	}
	return nil, base.Errorf(base.CodeInvalid, "node %d asks for %q, which this version does not know", from, q.Name)
}

// Ask asks one node, anywhere, a question that its Process.Answer knows.
func (e *env) Ask(ctx context.Context, node base.NodeID, name string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var res wire.AskResponse
	err := e.transport.Call(ctx, node, wire.KindAsk, &wire.AskRequest{Name: name, Body: body}, &res)
	return res.Body, err
}

// question asks a node one of the questions of answers.
func question[A any](ctx context.Context, e *env, node base.NodeID, name string, q any) (a A, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	b, err := e.Ask(ctx, node, name, body)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(b, &a)
}

// askAll asks all other nodes that are alive for lists and joins them to this one's. Those that do
// not answer are left out.
func askAll[T any](ctx context.Context, e *env, name string, own []T) []T {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range e.Topology().Nodes {
		if n.ID == e.self || n.Gone || !e.Live(n.ID) {
			continue
		}
		wg.Go(func() {
			more, err := question[[]T](ctx, e, n.ID, name, struct{}{})
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			own = append(own, more...)
		})
	}
	wg.Wait()
	return own
}

// AskAll asks the other nodes a question that their Process.Answer knows: here those of this node's
// region, there those of others. Those that do not answer in time are left out.
func (e *env) AskAll(ctx context.Context, here, there string) (answers [][]byte) {
	t := e.Topology()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range t.Nodes {
		if n.ID == e.self || n.Gone {
			continue
		}
		name := there
		if n.Region == t.RegionOf(e.self) {
			name = here
		}
		wg.Go(func() {
			b, err := e.Ask(ctx, n.ID, name, nil)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, b)
		})
	}
	wg.Wait()
	return answers
}
