package signin

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"codex.internal/pkg/wire/jsonwire"

	"golang.org/x/crypto/nacl/box"
)

// registerTask registers an agent's task and returns the task's id. If the
// service cannot be reached, is overloaded or fails, registerTask retries at
// once, as Codex CLI does.
func (a *Authority) registerTask(ctx context.Context, services agentServices, g *agent) (string, error) {
	var err error
	for range taskAttempts {
		var id string
		var again bool
		if id, again, err = a.tryRegisterTask(ctx, services, g); !again || ctx.Err() != nil {
			return id, err
		}
	}
	return "", &causedError{"retryable agent identity registration failure: " + err.Error(), errors.Unwrap(err)}
}

// tryRegisterTask makes one attempt. again means that another attempt may succeed.
func (a *Authority) tryRegisterTask(ctx context.Context, services agentServices, g *agent) (id string, again bool, err error) {
	type body struct {
		Timestamp string `json:"timestamp"`
		Signature string `json:"signature"`
	}
	at := g.timestamp()
	got, err := a.postJSON(ctx, request{
		url:     services.authAPI + "/v1/agent/" + url.PathEscape(g.record.RuntimeID) + "/task/register",
		timeout: taskTimeout,
	}, body{at, g.sign(g.record.RuntimeID, at)})
	if err != nil {
		return "", true, &causedError{"failed to register agent task", err}
	}
	if !got.ok() {
		text := got.text()
		if text != "" {
			text = ": " + text
		}
		again = got.status == http.StatusTooManyRequests || got.status >= 500
		return "", again, fmt.Errorf("agent task registration failed with status %s%s", got.statusText(), text)
	}
	id, err = taskID(got.body, g.key)
	return id, false, err
}

// taskID decodes the answer to a registration: the id, or the id in a sealed box that only the
// agent can open.
func taskID(body []byte, key ed25519.PrivateKey) (string, error) {
	var answer struct {
		TaskID         string `json:"task_id"`
		TaskIDCamel    string `json:"taskId"`
		Encrypted      string `json:"encrypted_task_id"`
		EncryptedCamel string `json:"encryptedTaskId"`
	}
	if err := jsonwire.Unmarshal(body, &answer); err != nil {
		return "", &causedError{"failed to decode agent task registration response", plainJSON("answer", err)}
	}
	for _, id := range []string{answer.TaskID, answer.TaskIDCamel} {
		if id != "" {
			return id, nil
		}
	}
	for _, sealed := range []string{answer.Encrypted, answer.EncryptedCamel} {
		if sealed != "" {
			return openTaskID(sealed, key)
		}
	}
	return "", errors.New("agent task registration response omitted task id")
}

// openTaskID opens a NaCl sealed box. Its key is derived from the signing key
// in the usual way: X25519 with the scalar that Ed25519 uses.
func openTaskID(sealed string, key ed25519.PrivateKey) (string, error) {
	data, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", errors.New("encrypted task id is not valid base64")
	}
	digest := sha512.Sum512(key.Seed())
	defer clear(digest[:])
	private := [32]byte(digest[:32]) // X25519 clamps it
	defer clear(private[:])
	pair, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return "", fmt.Errorf("encrypted task id: %w", err)
	}
	public := [32]byte(pair.PublicKey().Bytes())
	id, ok := box.OpenAnonymous(nil, data, &public, &private)
	if !ok || len(id) == 0 {
		return "", errors.New("failed to decrypt encrypted task id")
	}
	return string(id), nil
}
