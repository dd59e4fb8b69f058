//go:build !linux || race || msan || asan

package store

import "errors"

// fileSyncer exists on Linux only, and not under the race detector.
type fileSyncer struct{}

func newFileSyncer(uintptr) *fileSyncer { return nil }

func (s *fileSyncer) sync() error { return errors.ErrUnsupported }

func (s *fileSyncer) write([]byte, int64, bool) (int, error) { return 0, errors.ErrUnsupported }

func (s *fileSyncer) direct(bool) bool { return false }

func (s *fileSyncer) close() {}

func pages(int) []byte { return nil }

func freePages([]byte) {}
