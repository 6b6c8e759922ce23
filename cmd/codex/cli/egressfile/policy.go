// Package egressfile reads the file of codex exec-server --egress-policy, and adds to it the hosts
// that a person approved with codex remote --save.
package egressfile

import (
	"fmt"

	"codex.internal/pkg/account/home"
	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/sandbox/egress"
)

// maxSize bounds the file of --egress-policy, in bytes: the maximum number of
// patterns, at 64 bytes each.
const maxSize = 1 << 20

// policy is the file of --egress-policy.
type policy struct {
	Default          string   `toml:"default"`
	Allow            []string `toml:"allow"`
	Deny             []string `toml:"deny"`
	Ask              []string `toml:"ask"`
	Ports            []uint16 `toml:"ports"`
	PrivateAddresses bool     `toml:"private_addresses"`
	Private          []string `toml:"private"`
	Inject           []inject `toml:"inject"`
}

// inject is one [[inject]] of it.
type inject struct {
	Host           string `toml:"host"`
	Header         string `toml:"header"`
	Scheme         string `toml:"scheme"`
	ValueFile      string `toml:"value_file"`
	PlaceholderEnv string `toml:"placeholder_env"`
	UpstreamCA     string `toml:"upstream_ca"`
}

// Read reads the file of --egress-policy. An empty name means that there is no file.
func Read(path string) (*egress.Ceiling, error) {
	if path == "" {
		return nil, nil
	}
	text, err := safeopen.ReadFile(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("read --egress-policy: %w", err)
	}
	ceiling, err := parse(text)
	if err == nil {
		err = ceiling.CheckFiles()
	}
	if err != nil {
		return nil, fmt.Errorf("--egress-policy %s: %w", path, err)
	}
	return ceiling, nil
}

// parse parses the text of an egress policy. An unknown name is an error: a misspelt `deny` would deny nothing.
func parse(text []byte) (*egress.Ceiling, error) {
	var f policy
	if err := home.DecodeTOML(text, &f, true); err != nil {
		return nil, err
	}
	config := egress.CeilingConfig{
		Default: egress.Permission(f.Default), Allow: f.Allow, Deny: f.Deny, Ask: f.Ask, Ports: f.Ports, PrivateAddresses: f.PrivateAddresses, Private: f.Private,
	}
	for _, entry := range f.Inject {
		config.Inject = append(config.Inject, egress.Injection(entry))
	}
	return egress.NewCeiling(config)
}
