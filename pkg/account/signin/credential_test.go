package signin

import "testing"

func TestSame(t *testing.T) {
	agent, chat := new(agent), new(chatGPT)
	for _, tt := range []struct {
		name string
		a, b Credential
		want bool
	}{
		{"key", &apiKey{key: "k"}, &apiKey{key: "k"}, true},
		{"another key", &apiKey{key: "k"}, &apiKey{key: "l"}, false},
		{"rendezvous", rendezvousToken{"k"}, rendezvousToken{"k"}, true},
		{"another rendezvous", rendezvousToken{"k"}, rendezvousToken{"l"}, false},
		{"kind", rendezvousToken{"k"}, &apiKey{key: "k"}, false},
		{"token", &accessToken{token: "k", owner: owner{accountID: "a"}}, &accessToken{token: "k", owner: owner{accountID: "a"}}, true},
		{"token of another account", &accessToken{token: "k", owner: owner{accountID: "a"}}, &accessToken{token: "k", owner: owner{accountID: "b"}}, false},
		{"agent", agent, agent, false},
		{"ChatGPT", chat, chat, false},
		{"none", nil, nil, false},
	} {
		if got := Same(tt.a, tt.b); got != tt.want || got != Same(tt.b, tt.a) {
			t.Errorf("%s: got %v; want %v, Same(tt.b, tt.a)", tt.name, got, tt.want)
		}
	}
}
