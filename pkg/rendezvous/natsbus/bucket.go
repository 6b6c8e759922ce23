package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/rendezvous"
)

var (
	// errNoKey means that a key has no value.
	errNoKey = errors.New("no such key")
	// errConflict means that a value was changed since it was read.
	errConflict = errors.New("another node changed it at the same time")
)

// source selects the NATS server from which a bucket is read.
type source bool

const (
	// leader has the newest value. For some seconds after it crashes, reads fail.
	leader source = false
	// anyReplica may be slightly out of date. If it does not have a value, the leader is read, if
	// there is one.
	anyReplica source = true
)

// bucket is a bucket of JetStream's key-value store. It uses the subjects and headers of the store
// directly. The client library's own type reads either from any replica or only from the leader,
// depending on how the bucket was created. This program needs both.
type bucket struct {
	js   nats.JetStreamContext
	name string
}

// bucketOptions are the options of a new bucket.
type bucketOptions struct {
	name     string
	ttl      time.Duration // 0: values stay
	keys     int64         // how many are permitted
	replicas int           // 0: see Options.Replicas
}

// openBucket creates a bucket, or opens the existing one.
func openBucket(ctx context.Context, conn *nats.Conn, o bucketOptions) (*bucket, error) {
	js, err := conn.JetStream(nats.MaxWait(callTime))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", o.name, err)
	}
	b := &bucket{js: js, name: o.name}
	config := nats.StreamConfig{
		Name: b.stream(), Subjects: []string{b.subject(">")}, MaxMsgsPerSubject: 1, MaxMsgs: o.keys, MaxMsgSize: maxRecord, MaxAge: o.ttl,
		Discard: nats.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true, Replicas: o.replicas,
	}
	if config.Replicas == 0 {
		config.Replicas = 1
		if len(conn.Servers()) >= defaultReplicas {
			config.Replicas = defaultReplicas
		}
	}
	info, err := js.StreamInfo(b.stream(), nats.Context(ctx))
	if errors.Is(err, nats.ErrStreamNotFound) {
		info, err = js.AddStream(&config, nats.Context(ctx))
	}
	if errors.Is(err, nats.ErrStreamNameAlreadyInUse) { // another node was faster
		info, err = js.StreamInfo(b.stream(), nats.Context(ctx))
	}
	if err == nil && o.replicas != 0 && info.Config.Replicas != o.replicas {
		info.Config.Replicas = o.replicas
		_, err = js.UpdateStream(&info.Config, nats.Context(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", o.name, err)
	}
	return b, nil
}

func (b *bucket) stream() string            { return "KV_" + b.name }
func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// These are headers of the key-value store.
const (
	headerOperation = "KV-Operation"
	operationPurge  = "PURGE"
)

// get returns the value of a key and its revision. With errNoKey, the revision is the one that put
// needs to create the key. get retries while JetStream does not answer.
func (b *bucket) get(ctx context.Context, key string, from source) ([]byte, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for {
		value, revision, err := b.getOnce(ctx, key, from)
		if !errors.Is(err, rendezvous.ErrUnavailable) || wait.For(ctx, answerPause) != nil {
			return value, revision, err
		}
	}
}

func (b *bucket) getOnce(ctx context.Context, key string, from source) ([]byte, uint64, error) {
	var m *nats.RawStreamMsg
	var err, missing error
	if from == anyReplica {
		m, err = b.ask(ctx, key, nats.DirectGet())
		if errors.Is(err, nats.ErrMsgNotFound) {
			missing = err
		}
	}
	if from == leader || err != nil {
		m, err = b.ask(ctx, key)
	}
	if missing != nil && err != nil {
		err = missing
	}
	switch {
	case errors.Is(err, nats.ErrMsgNotFound):
		return nil, 0, fmt.Errorf("%s: %w", key, errNoKey)
	case err != nil:
		return nil, 0, fmt.Errorf("get %s: %w: %w", key, rendezvous.ErrUnavailable, err)
	case m.Header.Get(headerOperation) != "":
		return nil, m.Sequence, fmt.Errorf("%s: %w", key, errNoKey)
	}
	return m.Data, m.Sequence, nil
}

// ask makes one attempt to get a value.
func (b *bucket) ask(ctx context.Context, key string, opts ...nats.JSOpt) (*nats.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return b.js.GetLastMsg(b.stream(), b.subject(key), append(opts, nats.Context(ctx))...)
}

// put changes the value of a key at a revision (0 if the key does not exist)
// and returns the new revision, or an errConflict.
func (b *bucket) put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.publish(ctx, &nats.Msg{Subject: b.subject(key), Data: value}, key, revision)
}

// remove removes the value of a key at a revision. A marker remains for a while, so that watchers
// see the removal.
func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	m := nats.NewMsg(b.subject(key))
	m.Header.Set(headerOperation, operationPurge)
	m.Header.Set(nats.MsgRollup, nats.MsgRollupSubject)
	// Servers before 2.11 ignore this, and keep the marker as long as a value.
	_, err := b.publish(ctx, m, key, revision, nats.MsgTTL(markerTime))
	return err
}

func (b *bucket) publish(ctx context.Context, m *nats.Msg, key string, revision uint64, opts ...nats.PubOpt) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	// While there is no leader, no server answers, so retry until ctx ends.
	opts = append(opts, nats.RetryAttempts(-1), nats.RetryWait(answerPause),
		nats.Context(ctx), nats.ExpectStream(b.stream()), nats.ExpectLastSequencePerSubject(revision))
	done, err := b.js.PublishMsg(m, opts...)
	var refused *nats.APIError
	switch {
	case err == nil:
		return done.Sequence, nil
	case errors.As(err, &refused) && (refused.ErrorCode == wrongSequence || refused.ErrorCode == wrongSequenceReplicated):
		return 0, fmt.Errorf("put %s: %w", key, errConflict)
	default:
		return 0, fmt.Errorf("put %s: %w: %w", key, rendezvous.ErrUnavailable, err)
	}
}

// These are JetStream's error codes for a revision that is not the expected one, from a single
// server and from a cluster.
const (
	wrongSequence           nats.ErrorCode = 10071
	wrongSequenceReplicated nats.ErrorCode = 10164
)

// watch calls f with every value of the bucket and then with each change. For a removed value it
// passes nil. It returns when it fails or ctx ends.
func (b *bucket) watch(ctx context.Context, f func(key string, value []byte)) error {
	kv, err := b.js.KeyValue(b.name)
	if err != nil {
		return fmt.Errorf("watch %s: %w", b.name, err)
	}
	w, err := kv.WatchAll(nats.Context(ctx))
	if err != nil {
		return fmt.Errorf("watch %s: %w", b.name, err)
	}
	defer func() { _ = w.Stop() }() // ctx has stopped it, or it has ended
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return fmt.Errorf("watch %s: the watcher has ended", b.name)
			case e == nil: // all existing values have arrived
			case e.Operation() == nats.KeyValuePut:
				f(e.Key(), e.Value())
			default:
				f(e.Key(), nil)
			}
		}
	}
}
