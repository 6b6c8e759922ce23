package natsbus

import (
	"context"
	"fmt"
	"time"

	"codex.internal/pkg/rendezvous"
)

// Peers implements rendezvous.PeerBus.
func (b *Bus) Peers() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var list []string
	for node, heard := range b.nodes {
		if time.Since(heard) < silence {
			list = append(list, node)
		}
	}
	return list
}

// Answer implements rendezvous.PeerBus.
func (b *Bus) Answer(answer func(question string) []byte) { b.answers.Store(&answer) }

// Ask implements rendezvous.PeerBus.
func (b *Bus) Ask(ctx context.Context, node, question string) ([]byte, error) {
	answer, err := b.node.request(ctx, nodeCallSubject(node), &packet{kind: packetQuestion, to: question})
	switch {
	case err != nil:
		return nil, fmt.Errorf("natsbus: ask node %s: %w: %w", node, rendezvous.ErrUnavailable, err)
	case answer.kind != packetAnswer:
		return nil, fmt.Errorf("natsbus: ask node %s: %w: the node is starting or stopping", node, rendezvous.ErrUnavailable)
	}
	return answer.data, nil
}
