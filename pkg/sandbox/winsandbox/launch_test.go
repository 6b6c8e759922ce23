package winsandbox

import (
	"reflect"
	"slices"
	"testing"
)

func TestLoopbackPort(t *testing.T) {
	for url, want := range map[string]uint16{
		"http://127.0.0.1:8080": 8080, "socks5h://localhost:1": 1, " http://LocalHost:65535/path ": 65535, "http://[::1]:3128": 3128,
		"http://user:pa@ss@127.0.0.1:80": 80, "http://a:b@[::1]:81/": 81, "x://127.0.0.1:+7": 7, "://127.0.0.1:9": 9,
		"": 0, "127.0.0.1:8080": 0, "http://127.0.0.1": 0, "http://127.0.0.1:": 0, "http://127.0.0.1:0": 0, "http://127.0.0.1:65536": 0,
		"http://127.0.0.2:80": 0, "http://example.com:80": 0, "http://localhost.example:80": 0, "http://[::1]": 0, "http://[::2]:80": 0,
		"http://::1:80": 0, "http://[::1]x:80": 0, "http://proxy/127.0.0.1:80": 0, "http://127.0.0.1:80?x": 0, "http://local\u017fost:80": 0,
	} {
		if got := loopbackPort(url); got != want {
			t.Errorf("%q: %d, want %d", url, got, want)
		}
	}
}

func TestSettingsFromEnv(t *testing.T) {
	env := map[string]string{
		"HTTP_PROXY": "http://127.0.0.1:9000", "http_proxy": "http://127.0.0.1:8000", "WSS_PROXY": "ws://[::1]:9000",
		"Https_Proxy": "http://127.0.0.1:1", "NO_PROXY": "http://127.0.0.1:2", "ALL_PROXY": "http://proxy.example:3",
		"CODEX_WINDOWS_SANDBOX_PROXY_PORTS": "70, 0,x,,8000,65536", "CODEX_NETWORK_ALLOW_LOCAL_BINDING": "1",
	}
	want := ProxySettings{Ports: []uint16{70, 8000, 9000}, AllowLocalBinding: true}
	if got := SettingsFromEnv(env, Offline); !got.Equal(want) {
		t.Errorf("offline: %+v", got)
	}
	if got := SettingsFromEnv(env, Online); !got.Equal(ProxySettings{}) {
		t.Errorf("online: %+v", got)
	}
	env["CODEX_NETWORK_ALLOW_LOCAL_BINDING"] = "true"
	if SettingsFromEnv(env, Offline).AllowLocalBinding {
		t.Error("local binding is allowed by something else than 1")
	}
}

func TestIdentity(t *testing.T) {
	for _, test := range []struct {
		enforced, restricted bool
		want                 Identity
	}{{false, false, Online}, {true, false, Offline}, {false, true, Offline}, {true, true, Offline}} {
		if got := IdentityFor(test.enforced, test.restricted); got != test.want {
			t.Errorf("%+v: got %v, want %v", test, got, test.want)
		}
	}
}

func TestMarker(t *testing.T) {
	for text, want := range map[string]*Marker{
		`{"version":5,"offline_username":"off","online_username":"on"}`:                                 {Version: 5, OfflineUsername: "off", OnlineUsername: "on"},
		`{"version":4,"offline_username":"","online_username":"","created_at":null,"proxy_ports":[80]}`: {Version: 4, ProxyPorts: []uint16{80}},
		`{"version":5,"offline_username":"","online_username":"","allow_local_binding":true,"later":1}`: {Version: 5, AllowLocalBinding: true},
		`{"version":5,"offline_username":"off"}`:                                                        nil,
		`{"version":5,"offline_username":"","online_username":null}`:                                    nil,
		`{"version":"5","offline_username":"","online_username":""}`:                                    nil,
		`{"version":5,"offline_username":"","online_username":"","proxy_ports":[65536]}`:                nil,
		`null`: nil, `[]`: nil, ``: nil,
	} {
		got, err := DecodeMarker([]byte(text))
		if (err == nil) != (want != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, error %v; want success: %v, %+v", text, got, err, want != nil, want)
		}
	}
	made := "2026-01-02T03:04:05Z"
	m := Marker{Version: SetupVersion, OfflineUsername: "off", OnlineUsername: "on", CreatedAt: &made}
	text, err := m.Encode()
	if want := `{"version":5,"offline_username":"off","online_username":"on","created_at":"2026-01-02T03:04:05Z","proxy_ports":[],"allow_local_binding":false}`; err != nil || string(text) != want {
		t.Errorf("got text %s, error %v; want no error, text %s", text, err, want)
	}
	if again, err := DecodeMarker(text); err != nil || !again.Current() || again.CreatedAt == nil || *again.CreatedAt != made {
		t.Errorf("got again %+v, error %v; want no error, again.Current(), again.CreatedAt that is not nil, again.CreatedAt %v", again, err, made)
	}
	if (*Marker)(nil).Current() || (&Marker{Version: 6}).Current() {
		t.Error("no marker, or a later one, is current")
	}
}

func TestPlanLaunch(t *testing.T) {
	stored := &Marker{Version: SetupVersion, ProxyPorts: []uint16{3128, 8080}, AllowLocalBinding: true}
	same := map[string]string{"HTTP_PROXY": "http://127.0.0.1:8080", "ALL_PROXY": "http://127.0.0.1:3128", "CODEX_NETWORK_ALLOW_LOCAL_BINDING": "1"}
	var kept, none = stored.Settings(), ProxySettings{}
	for name, test := range map[string]struct {
		launch  Launch
		marker  *Marker
		noUsers bool
		want    ProxySettings
		reason  string
	}{
		"nothing has changed":                         {launch: Launch{Env: same, ProxyEnforced: true}, marker: stored, want: kept},
		"a command without proxies reconciles":        {launch: Launch{NetworkRestricted: true}, marker: stored, want: none, reason: "offline firewall settings changed (stored_ports=[3128, 8080], desired_ports=[], stored_allow_local_binding=true, desired_allow_local_binding=false)"},
		"a helper preserves":                          {launch: Launch{NetworkRestricted: true, Mode: Preserve}, marker: stored, want: kept},
		"an online command leaves the rules alone":    {launch: Launch{Env: same}, marker: stored, want: none},
		"an online helper preserves too":              {launch: Launch{Mode: Preserve}, marker: stored, want: kept},
		"only local binding differs":                  {launch: Launch{Env: map[string]string{"CODEX_WINDOWS_SANDBOX_PROXY_PORTS": "8080,3128"}, NetworkRestricted: true}, marker: stored, want: ProxySettings{Ports: kept.Ports}, reason: "offline firewall settings changed (stored_ports=[3128, 8080], desired_ports=[3128, 8080], stored_allow_local_binding=true, desired_allow_local_binding=false)"},
		"the marker's order counts":                   {launch: Launch{Env: same, ProxyEnforced: true}, marker: &Marker{Version: SetupVersion, ProxyPorts: []uint16{8080, 3128}, AllowLocalBinding: true}, want: kept, reason: "offline firewall settings changed (stored_ports=[8080, 3128], desired_ports=[3128, 8080], stored_allow_local_binding=true, desired_allow_local_binding=true)"},
		"no marker":                                   {launch: Launch{Env: same, ProxyEnforced: true}, want: kept, reason: "sandbox setup marker missing or incompatible"},
		"no marker for an online command":             {launch: Launch{}, want: none, reason: "sandbox setup marker missing or incompatible"},
		"another version is not preserved":            {launch: Launch{Mode: Preserve, NetworkRestricted: true}, marker: &Marker{Version: 4, ProxyPorts: []uint16{1}}, want: none, reason: "sandbox setup marker missing or incompatible"},
		"no users":                                    {launch: Launch{Env: same, ProxyEnforced: true}, marker: stored, noUsers: true, want: kept, reason: "sandbox users missing or incompatible with marker version"},
		"changed rules are told rather than no users": {launch: Launch{ProxyEnforced: true}, marker: &Marker{Version: SetupVersion, ProxyPorts: []uint16{1}}, noUsers: true, want: none, reason: "offline firewall settings changed (stored_ports=[1], desired_ports=[], stored_allow_local_binding=false, desired_allow_local_binding=false)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := PlanLaunch(test.launch, test.marker, !test.noUsers)
			if !p.Settings.Equal(test.want) || p.Reason != test.reason {
				t.Errorf("%+v for the reason %q\nwant %+v, %q", p.Settings, p.Reason, test.want, test.reason)
			}
			var elevated []bool
			for _, step := range p.Steps {
				elevated = append(elevated, step.Elevated)
				if !step.Settings().Equal(test.want) {
					t.Errorf("a step is for %+v", step.Settings())
				}
			}
			want := []bool{false}
			if test.reason != "" {
				want = []bool{true, false}
			}
			if !slices.Equal(elevated, want) {
				t.Errorf("steps are elevated: %v, want %v", elevated, want)
			}
		})
	}
}

func TestExplicitSettingsWinOverTheEnvironment(t *testing.T) {
	l := Launch{ProxyEnforced: true, Env: map[string]string{"HTTP_PROXY": "http://127.0.0.1:80"}}
	for _, elevated := range []bool{true, false} {
		r := SetupRequest{Launch: l, Elevated: elevated}
		if got := r.Settings(); !got.Equal(ProxySettings{Ports: []uint16{80}}) {
			t.Errorf("the environment's: %+v", got)
		}
		r.Explicit = &ProxySettings{}
		if got := r.Settings(); !got.Equal(ProxySettings{}) {
			t.Errorf("explicit: %+v", got)
		}
	}
}
