package rendezvous

import (
	"context"
	"crypto/sha256"
	"time"

	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/secret"
)

// Registration is an executor that offers an environment.
type Registration struct {
	ID          string          `json:"id"`
	Environment string          `json:"environment"`
	Key         noise.PublicKey `json:"executor_public_key"`
	Token       string          `json:"token"`   // id of the executor's token
	Expires     time.Time       `json:"expires"` // when its URL expires
}

// Listed is the newest registration of an environment, and whether its executor is
// connected.
type Listed struct {
	Registration
	Connected  bool
	Connection *ExecutorConnection // the newest; nil: its executor has not connected yet
}

// ExecutorConnection is a connection of an executor, for the status page.
type ExecutorConnection struct {
	Address string    `json:"address"` // of the peer
	Since   time.Time `json:"since"`
	// Until is when the connection ended. It is zero if the connection has not ended, or if its
	// node was lost.
	Until time.Time `json:"until,omitzero"`
	// Name and Agent are the executor's own description; see relay.ReadDescription.
	Name  string `json:"name,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// KeyBytes is the size of a signing key.
const KeyBytes = sha256.Size

// Keys are the secrets with which nodes verify each other's URLs and authorizations.
type Keys struct {
	secret.Unprinted
	URLs           [KeyBytes]byte
	Authorizations [KeyBytes]byte // changes when the record of spent nonces is lost
}

// State is the data that the nodes of a service share, apart from the sockets. Harnesses connect to
// the newest registration of an environment. A replaced registration remains while its executor is
// connected, so that two executors with one name do not disconnect each other forever. The methods
// may be called from any goroutine. They return soon after their ctx ends, and return an
// ErrUnavailable if the shared state cannot be reached for a while.
type State interface {
	Keys() Keys
	// Register stores a registration and makes it the newest of its environment. If a limit is
	// reached, the error is an ErrTooMany.
	Register(ctx context.Context, reg Registration) error
	// Newest returns the registration to which harnesses of an environment connect, or an
	// ErrNotRegistered.
	Newest(ctx context.Context, environment string) (Registration, error)
	// Find returns the registration with an id, or an ErrNotRegistered.
	Find(ctx context.Context, id string) (Registration, error)
	// Attach records that a registration's executor connects. The caller must call Detach. c.Until
	// must be zero. The generation is greater than that of every earlier connection of the
	// executor. The error is an ErrNotRegistered if the executor has been replaced, or was never
	// registered.
	Attach(ctx context.Context, id string, c ExecutorConnection) (generation uint64, err error)
	// Detach records that the connection with a generation ended, and when.
	Detach(ctx context.Context, id string, generation uint64, at time.Time)
	// Nonce returns a new nonce of letters, digits and dashes.
	Nonce() string
	// Spend marks a nonce as used, and reports whether it was valid and unused. until is when its
	// authorization expires. Spend is not called for the nonce after that.
	Spend(ctx context.Context, nonce string, until time.Time) (bool, error)
	// List returns the result of Newest for all environments, in no particular
	// order. It does not wait, and may be slightly out of date.
	List() []Listed
	// Sweep removes expired entries.
	Sweep(ctx context.Context)
	// Check returns an error if the state cannot currently be changed.
	Check(ctx context.Context) error
}
