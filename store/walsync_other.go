//go:build !linux

package store

// fileSyncer exists on Linux only.
type fileSyncer struct{}

func newFileSyncer(uintptr) *fileSyncer { return nil }

func (s *fileSyncer) sync() (done bool, err error) { return false, nil }

func (s *fileSyncer) close() {}
