package console

import (
	"errors"
	"net/http"
	"slices"
)

// codeView is the page on which a code is typed.
type codeView struct{ Code, Error string }

// codePage may be opened by a link with the code in it: that fills in the
// field, and does nothing else.
func (v *visit) codePage() error {
	return v.showCode(http.StatusOK, v.r.URL.Query().Get("user_code"), "")
}

func (v *visit) showCode(status int, code, text string) error {
	if len(code) > 32 {
		code = ""
	}
	return v.views.render(v.w, status, "code", v.frame("Connect a device", "authorize", codeView{code, text}))
}

// deviceView is the page on which somebody decides.
type deviceView struct {
	Device    Device
	Plans     []string
	Plan      string // chosen before
	Elsewhere bool   // the program asked from another address than this browser's
	Here      string
	Token     string
}

func (v *visit) devicePage() error {
	code := v.r.PostFormValue("user_code")
	device, err := v.Devices.LookUp(v.r.Context(), v.visitor(), code)
	if errors.Is(err, ErrWrongCode) {
		return v.wrongCode(code)
	}
	if err != nil {
		return err
	}
	plans := v.devicePlans()
	view := deviceView{
		Device: device, Plans: plans, Plan: device.Plan, Elsewhere: device.Address != v.address.String(),
		Here: v.address.String(), Token: v.token(approval(device.Code)),
	}
	if !slices.Contains(plans, view.Plan) && len(plans) > 0 {
		view.Plan = plans[0]
	}
	return v.views.render(v.w, http.StatusOK, "device", v.frame("Approve a device?", "authorize", view))
}

// decide takes a form that is bound to the session and to the code: whoever
// started the device login knows the code, but not this token.
func (v *visit) decide() error {
	code := v.r.PostFormValue("user_code")
	if !v.mayPost(approval(code)) {
		return errForged
	}
	done := deviceDone{Denied: v.r.PostFormValue("decision") != "approve"}
	var err error
	if done.Denied {
		done.Device, err = v.Devices.Deny(v.r.Context(), v.visitor(), code)
	} else {
		done.Device, err = v.Devices.Approve(v.r.Context(), v.visitor(), code, v.r.PostFormValue("plan"))
	}
	if errors.Is(err, ErrWrongCode) {
		return v.wrongCode(code)
	}
	if err != nil {
		return err
	}
	title := "Device approved"
	if done.Denied {
		title = "Device denied"
	}
	return v.views.render(v.w, http.StatusOK, "decided", v.frame(title, "authorize", done))
}

type deviceDone struct {
	Denied bool
	Device Device
}

func (v *visit) wrongCode(code string) error {
	return v.showCode(http.StatusNotFound, code, "No device is waiting with this code. It may be mistyped, too old, or decided already.")
}

func (v *visit) visitor() Visitor { return Visitor{Owner: v.person.Owner, Address: v.address} }

// devicePlans are those that the person may have, as far as devices may.
func (v *visit) devicePlans() []string {
	if len(v.Devices.Plans) == 0 {
		return v.plans
	}
	return slices.DeleteFunc(slices.Clone(v.plans), func(plan string) bool { return !slices.Contains(v.Devices.Plans, plan) })
}

func approval(code string) string { return "approve " + code }
