package signin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"codex.internal/pkg/wire/jsonwire"
)

// errJWT means that a text is not a JWT with a readable payload.
var errJWT = errors.New("invalid ID token format")

// IDClaims are the claims of an id_token about its user. They are shown to the user and sent back
// to the issuer. The signature is not verified.
type IDClaims struct {
	Email     string
	PlanType  string
	UserID    string
	AccountID string
	FedRAMP   bool // the account is on FedRAMP's side
}

// authClaims are the claims of the namespace https://api.openai.com/auth.
type authClaims struct {
	PlanType      *string `json:"chatgpt_plan_type"`
	ChatGPTUserID *string `json:"chatgpt_user_id"`
	UserID        *string `json:"user_id"`
	AccountID     *string `json:"chatgpt_account_id"`
	FedRAMP       bool    `json:"chatgpt_account_is_fedramp"`
}

// ParseIDClaims reads the claims of an id_token. An error means that it is not
// a JWT: three non-empty parts, the second of which is JSON.
func ParseIDClaims(token Secret) (IDClaims, error) {
	var payload struct {
		Email   *string `json:"email"`
		Profile *struct {
			Email *string `json:"email"`
		} `json:"https://api.openai.com/profile"`
		Auth *authClaims `json:"https://api.openai.com/auth"`
	}
	if err := decodePayload(token, &payload); err != nil {
		return IDClaims{}, err
	}
	var c IDClaims
	switch {
	case payload.Email != nil:
		c.Email = *payload.Email
	case payload.Profile != nil:
		c.Email = value(payload.Profile.Email)
	}
	if a := payload.Auth; a != nil {
		c.PlanType, c.AccountID, c.FedRAMP = value(a.PlanType), value(a.AccountID), a.FedRAMP
		c.UserID = value(a.UserID)
		if a.ChatGPTUserID != nil {
			c.UserID = *a.ChatGPTUserID
		}
	}
	return c, nil
}

// expiry returns when a token expires. It returns false if the token has no expiry.
func expiry(token Secret) (time.Time, bool) {
	var payload struct {
		Exp *int64 `json:"exp"`
	}
	if decodePayload(token, &payload) != nil || payload.Exp == nil {
		return time.Time{}, false
	}
	return time.Unix(*payload.Exp, 0), true
}

// decodePayload decodes a JWT's payload. Its errors contain no part of the token.
func decodePayload(token Secret, v any) error {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return errJWT
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return fmt.Errorf("%w: the payload is not base64url", errJWT)
	}
	if err := jsonwire.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: the payload is not the JSON of claims", errJWT)
	}
	return nil
}

// value returns the text that p points to, or "".
func value(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
