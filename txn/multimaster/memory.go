package multimaster

import (
	"context"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/epoch"
)

// Memory is a [Registry] in this process, for engines that are all in it. What it knows ends with
// it.
type Memory struct {
	mu    sync.Mutex
	views []epoch.View
}

// Load implements [Registry]: the newest view, nil if there is none.
func (m *Memory) Load(context.Context) (*epoch.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.views) == 0 {
		return nil, nil
	}
	v := m.views[len(m.views)-1]
	return &v, nil
}

// Replace implements [Registry]. It fails with CodeAborted if v does not follow the newest view.
func (m *Memory) Replace(_ context.Context, v *epoch.View) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.views)
	if v.Number != uint64(n+1) {
		return base.Errorf(base.CodeAborted, "there is view %d", n)
	}
	if n > 0 && v.Start < m.views[n-1].Start {
		return base.Errorf(base.CodeInvalid, "view %d begins with epoch %d, before view %d, which begins with %d",
			v.Number, v.Start, n, m.views[n-1].Start)
	}
	m.views = append(m.views, *v)
	return nil
}

// All are the views so far, the first first.
func (m *Memory) All() []epoch.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.views)
}
