//go:build !linux

package faults

import "errors"

// The sites are network namespaces, which only Linux has.
var errLinux = errors.New("it needs Linux")

func privateMounts() error            { return errLinux }
func deviceOf(string) (string, error) { return "", errLinux }
