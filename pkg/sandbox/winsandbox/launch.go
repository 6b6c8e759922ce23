package winsandbox

import (
	"fmt"
	"strconv"
	"strings"
)

// Launch is the part of a launch that determines the set-up.
type Launch struct {
	CodexHome, CommandCwd string
	Env                   map[string]string
	ProxyEnforced         bool
	NetworkRestricted     bool // by the permission profile
	Mode                  Mode
}

// Identity is the user as whom the command runs.
func (l Launch) Identity() Identity { return IdentityFor(l.ProxyEnforced, l.NetworkRestricted) }

// SetupRequest asks the set-up program for one run: either the elevated one,
// which makes users and firewall rules, or the refresh, which only updates
// access rights and needs no elevation.
type SetupRequest struct {
	Launch   Launch
	Elevated bool
	// Explicit settings replace those of the environment; nil: the environment
	// counts.
	Explicit *ProxySettings
}

// Settings are the firewall rules that the request is for.
func (r SetupRequest) Settings() ProxySettings {
	if r.Explicit != nil {
		return *r.Explicit
	}
	return SettingsFromEnv(r.Launch.Env, r.Launch.Identity())
}

// Reasons for an elevated set-up besides changed firewall settings.
const (
	ReasonMarker = "sandbox setup marker missing or incompatible"
	ReasonUsers  = "sandbox users missing or incompatible with marker version"
)

// SetupReason returns why an elevated set-up is needed, or "" if it is not. A
// nil marker means that there is none; usersReady means that the users'
// credentials exist and have the marker's version.
func SetupReason(marker *Marker, usersReady bool, id Identity, desired ProxySettings) string {
	if !marker.Current() {
		return ReasonMarker
	}
	if stored := marker.Settings(); id == Offline && !stored.Equal(desired) {
		return fmt.Sprintf("offline firewall settings changed (stored_ports=%s, desired_ports=%s, stored_allow_local_binding=%t, desired_allow_local_binding=%t)",
			portsText(stored.Ports), portsText(desired.Ports), stored.AllowLocalBinding, desired.AllowLocalBinding)
	}
	if !usersReady {
		return ReasonUsers
	}
	return ""
}

func portsText(ports []uint16) string {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = strconv.Itoa(int(port))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// Plan has the steps before a sandboxed command.
type Plan struct {
	Identity Identity
	Settings ProxySettings
	// Reason is why the first step is an elevated one; empty: it is not.
	Reason string
	// Steps are to be run in this order; the first that fails ends the
	// launch.
	Steps []SetupRequest
}

// PlanLaunch determines the steps of a launch once it has loaded the marker
// (nil: there is no readable one) and checked the users: an elevated set-up if
// there is a reason for one, then always the refresh, both for the same
// settings.
func PlanLaunch(l Launch, marker *Marker, usersReady bool) Plan {
	id := l.Identity()
	settings := DesiredSettings(l.Mode, marker, l.Env, id)
	p := Plan{Identity: id, Settings: settings, Reason: SetupReason(marker, usersReady, id, settings)}
	if p.Reason != "" {
		p.Steps = append(p.Steps, SetupRequest{Launch: l, Elevated: true, Explicit: &settings})
	}
	p.Steps = append(p.Steps, SetupRequest{Launch: l, Explicit: &settings})
	return p
}
