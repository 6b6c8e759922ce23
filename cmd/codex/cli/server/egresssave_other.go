//go:build !linux

package server

import (
	"context"
	"errors"
)

// EgressFile is a file in the format of --egress-policy. There is none on this system,
// which cannot say whose links lead to it.
type EgressFile struct{}

// OpenEgressFile returns an error.
func OpenEgressFile(string) (*EgressFile, error) {
	return nil, errors.New("egress policies are for Linux and macOS")
}

// Allow does nothing.
func (*EgressFile) Allow(context.Context, ...string) error { return nil }

// Close does nothing.
func (*EgressFile) Close() error { return nil }
