package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// patPrefix is the beginning of a personal access token.
const patPrefix = "at-"

// isPAT reports whether an access token is a personal access token. Otherwise it is the JWT of an
// agent.
func isPAT(token Secret) bool { return strings.HasPrefix(token.Reveal(), patPrefix) }

// owner is the account of a personal access token.
type owner struct {
	accountID string
	fedRAMP   bool
}

// whoami requests the owner of a personal access token.
func (a *Authority) whoami(ctx context.Context, token Secret) (owner, error) {
	got, err := a.do(ctx, request{method: http.MethodGet, url: a.authAPI() + "/v1/user-auth-credential/whoami", bearer: token})
	if err != nil {
		return owner{}, fmt.Errorf("failed to request personal access token metadata: %w", err)
	}
	if !got.ok() {
		return owner{}, &causedError{"personal access token metadata request failed with status " + got.statusText(), errors.New(got.detail())}
	}
	var answer struct {
		AccountID *string `json:"chatgpt_account_id"`
		FedRAMP   bool    `json:"chatgpt_account_is_fedramp"`
	}
	if err := jsonwire.Unmarshal(got.body, &answer); err != nil || answer.AccountID == nil {
		return owner{}, errors.New("failed to decode personal access token metadata: error decoding response body")
	}
	return owner{*answer.AccountID, answer.FedRAMP}, nil
}
