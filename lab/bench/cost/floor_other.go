//go:build !linux

package cost

import "errors"

func serveSockets(*floorRun) error { return errors.New("this benchmark needs Linux") }
