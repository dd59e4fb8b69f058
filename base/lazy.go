package base

import "sync"

// Lazily returns m[k], which mu guards. What is not there yet is made, once.
func Lazily[K comparable, V any](mu *sync.RWMutex, m map[K]V, k K, make func() V) V {
	mu.RLock()
	v, ok := m[k]
	mu.RUnlock()
	if ok {
		return v
	}
	mu.Lock()
	defer mu.Unlock()
	if v, ok = m[k]; !ok {
		v = make()
		m[k] = v
	}
	return v
}
