package signin

import "testing"

func TestSame(t *testing.T) {
	agent, chat := new(agent), new(chatGPT)
	for _, tt := range []struct {
		name string
		a, b Credential
		want bool
	}{
		{"key", &apiKey{"k"}, &apiKey{"k"}, true},
		{"another key", &apiKey{"k"}, &apiKey{"l"}, false},
		{"rendezvous", rendezvousToken{"k"}, rendezvousToken{"k"}, true},
		{"another rendezvous", rendezvousToken{"k"}, rendezvousToken{"l"}, false},
		{"kind", rendezvousToken{"k"}, &apiKey{"k"}, false},
		{"token", &accessToken{"k", owner{accountID: "a"}}, &accessToken{"k", owner{accountID: "a"}}, true},
		{"token of another account", &accessToken{"k", owner{accountID: "a"}}, &accessToken{"k", owner{accountID: "b"}}, false},
		{"agent", agent, agent, false},
		{"ChatGPT", chat, chat, false},
		{"none", nil, nil, false},
	} {
		if got := Same(tt.a, tt.b); got != tt.want || got != Same(tt.b, tt.a) {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
