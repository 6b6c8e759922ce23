package natsbus

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

// The buckets of the service, and the keys in them.
const (
	bucketService       = "codex-rendezvous" // keyOfKeys
	bucketRegistrations = "codex-rendezvous-registrations"

	keyOfKeys            = "url-key"
	prefixByID           = "id."
	prefixNewest         = "environment."
	purposeAuthorization = "authorizations"
)

// State is the rendezvous.State that the nodes of a service share. Each node has a copy of the
// registrations, which may be slightly out of date. Limits are checked against the copy, and List
// returns it.
type State struct {
	secret.Unprinted
	node          *Node
	keys          rendezvous.Keys
	registrations *bucket
	spent         *rendezvous.Nonces // nonces that this node has made

	mu       sync.Mutex
	copied   map[string]*copied     // by id
	newest   map[string]string      // key of an environment: id of its newest registration
	attached map[string]*attachment // of executors at this node, by id
}

// record is a registration as it is stored.
type record struct {
	rendezvous.Registration
	Node       string                         `json:"node,omitempty"`  // where its executor is connected
	Connection *rendezvous.ExecutorConnection `json:"visit,omitempty"` // of its executor, the newest; it is replaced, not changed. Older nodes call it so.
}

// attachment is a connection of an executor to this node.
type attachment struct {
	generation uint64
	revision   uint64 // of the record
	renewed    time.Time
	over       bool      // and it could not be noted yet
	until      time.Time // if it is over
}

// openState opens the buckets, and creates the key if this is the first node.
func openState(ctx context.Context, node *Node, replicas int) (*State, error) {
	s := &State{
		node: node, spent: rendezvous.NewNonces(),
		copied: make(map[string]*copied), newest: make(map[string]string), attached: make(map[string]*attachment),
	}
	service, err := openBucket(ctx, node.conn, bucketOptions{name: bucketService, keys: 1, replicas: replicas})
	if err != nil {
		return nil, err
	}
	s.registrations, err = openBucket(ctx, node.conn, bucketOptions{
		name: bucketRegistrations, keys: maxRegistrations, ttl: registrationTime, replicas: replicas,
	})
	if err != nil {
		return nil, err
	}
	return s, s.openKeys(ctx, service)
}

// openKeys reads the key, or creates it.
func (s *State) openKeys(ctx context.Context, service *bucket) error {
	key, revision, err := service.get(ctx, keyOfKeys, leader)
	if errors.Is(err, errNoKey) {
		key = make([]byte, rendezvous.KeyBytes)
		_, _ = rand.Read(key) // never fails
		if _, err = service.put(ctx, keyOfKeys, key, revision); errors.Is(err, errConflict) {
			key, _, err = service.get(ctx, keyOfKeys, leader)
		}
	}
	if err != nil {
		return err
	}
	if copy(s.keys.URLs[:], key) != rendezvous.KeyBytes || len(key) != rendezvous.KeyBytes {
		return fmt.Errorf("%s in bucket %s has %d bytes, not %d", keyOfKeys, bucketService, len(key), rendezvous.KeyBytes)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purposeAuthorization))
	mac.Sum(s.keys.Authorizations[:0])
	return nil
}

// Keys implements rendezvous.State.
func (s *State) Keys() rendezvous.Keys { return s.keys }

// keyByID returns the key under which a registration is stored. keyNewest returns the key that
// records the newest registration of an environment.
func keyByID(id string) string { return prefixByID + id }

func keyNewest(environment string) string {
	return prefixNewest + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(environment))
}

// Register implements rendezvous.State. If nodes register at the same moment, together they may
// exceed a limit by their new registrations.
func (s *State) Register(ctx context.Context, reg rendezvous.Registration) error {
	if err := s.checkLimits(&reg); err != nil {
		return err
	}
	if _, err := s.write(ctx, record{Registration: reg}, 0); err != nil {
		return err
	}
	key := keyNewest(reg.Environment)
	for range casAttempts {
		former, revision, err := s.registrations.get(ctx, key, leader)
		if err != nil && !errors.Is(err, errNoKey) {
			return err
		}
		_, err = s.registrations.put(ctx, key, []byte(reg.ID), revision)
		if errors.Is(err, errConflict) {
			continue
		}
		if err != nil {
			return err
		}
		if len(former) > 0 {
			s.dropReplaced(ctx, string(former))
		}
		return nil
	}
	return fmt.Errorf("register environment %q: %w: %w", reg.Environment, rendezvous.ErrUnavailable, errConflict)
}

// dropReplaced removes a registration that was replaced, unless its executor is connected. If that
// fails, the registration is removed when it expires.
func (s *State) dropReplaced(ctx context.Context, id string) {
	rec, revision, err := s.read(ctx, id, leader)
	if err == nil && rec.Node == "" {
		err = s.registrations.remove(ctx, keyByID(id), revision)
	}
	if err != nil && !errors.Is(err, rendezvous.ErrNotRegistered) {
		s.node.log.Warn("cannot remove a registration that was replaced", "registration", id, "error", err)
	}
}

// read returns a registration and its revision, or an ErrNotRegistered.
func (s *State) read(ctx context.Context, id string, from source) (record, uint64, error) {
	if !validAddress(id) {
		return record{}, 0, fmt.Errorf("registration %q: %w", id, rendezvous.ErrNotRegistered)
	}
	value, revision, err := s.registrations.get(ctx, keyByID(id), from)
	if errors.Is(err, errNoKey) {
		return record{}, 0, fmt.Errorf("registration %s: %w", id, rendezvous.ErrNotRegistered)
	}
	if err != nil {
		return record{}, 0, err
	}
	var rec record
	if err := jsonwire.Unmarshal(value, &rec); err != nil {
		return record{}, 0, fmt.Errorf("registration %s in bucket %s: %w", id, bucketRegistrations, err)
	}
	return rec, revision, nil
}

// write changes a registration at a revision, and returns the new revision.
func (s *State) write(ctx context.Context, rec record, revision uint64) (uint64, error) {
	value, err := json.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("registration %s: %w", rec.ID, err)
	}
	return s.registrations.put(ctx, keyByID(rec.ID), value, revision)
}

// Newest implements rendezvous.State.
func (s *State) Newest(ctx context.Context, environment string) (rendezvous.Registration, error) {
	id, _, err := s.registrations.get(ctx, keyNewest(environment), anyReplica)
	if errors.Is(err, errNoKey) {
		return rendezvous.Registration{}, fmt.Errorf("environment %q: %w", environment, rendezvous.ErrNotRegistered)
	}
	if err != nil {
		return rendezvous.Registration{}, err
	}
	return s.Find(ctx, string(id))
}

// Find implements rendezvous.State.
func (s *State) Find(ctx context.Context, id string) (rendezvous.Registration, error) {
	rec, _, err := s.read(ctx, id, anyReplica)
	return rec.Registration, err
}

// isNewest reports whether a registration is the newest of its environment, and
// the revision of the key that records this.
func (s *State) isNewest(ctx context.Context, reg *rendezvous.Registration) (bool, uint64, error) {
	id, revision, err := s.registrations.get(ctx, keyNewest(reg.Environment), leader)
	if errors.Is(err, errNoKey) {
		return false, 0, nil
	}
	return string(id) == reg.ID, revision, err
}

// Nonce implements rendezvous.State. The nonce contains the id of the node.
func (s *State) Nonce() string { return s.node.id + "-" + rand.Text() }

// Spend implements rendezvous.State. The node that made the nonce records whether it was used. When
// that node ends, its nonces become invalid. So Spend needs no JetStream leader, whose election
// takes some seconds.
func (s *State) Spend(ctx context.Context, nonce string, until time.Time) (bool, error) {
	node, _, _ := strings.Cut(nonce, "-")
	if node == s.node.id {
		return s.spent.Spend(nonce, until), nil
	}
	if !validAddress(node) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := s.node.request(ctx, nodeCallSubject(node), &packet{kind: packetSpend, to: nonce, number: uint64(until.Unix())})
	if errors.Is(err, nats.ErrNoResponders) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("spend a nonce of node %s: %w: %w", node, rendezvous.ErrUnavailable, err)
	}
	return answer.kind == packetAccept, nil
}

// Check implements rendezvous.State: it reads a key that always exists.
func (s *State) Check(ctx context.Context) error {
	if !s.node.conn.IsConnected() {
		return fmt.Errorf("%w: NATS: %v", rendezvous.ErrUnavailable, s.node.conn.Status())
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime) // without a leader there is no answer
	defer cancel()
	_, err := s.registrations.js.StreamInfo(s.registrations.stream(), nats.Context(ctx))
	if err != nil {
		return fmt.Errorf("bucket %s: %w: %w", bucketRegistrations, rendezvous.ErrUnavailable, err)
	}
	return nil
}
