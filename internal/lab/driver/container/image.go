package container

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
)

// emptyImage is the image of an environment without an image. It contains nothing, and is made here, not downloaded.
const emptyImage = "tare/empty:1"

// findImage makes sure that the image exists on this machine, and returns its name and platform. made tells that it is
// the empty image and was made for this environment.
func findImage(ctx context.Context, e engine, a engineInfo, o env.Options) (name string, img image, made bool,
	err error) {
	if o.Get(stack.SettingName, "") != "" {
		name, img, err = findStack(ctx, e, a, o)
		return name, img, false, err
	}
	if o.Arg == "" {
		img, made, err = findEmpty(ctx, e, a)
		return emptyImage, img, made, err
	}
	platform := o.Get("platform", "")
	img, err = e.image(ctx, o.Arg)
	if err != nil && !noSuch(err) {
		return "", image{}, false, err
	}
	if err == nil && img.matches(platform) {
		return o.Arg, img, false, nil
	}
	if o.Get("pull", "missing") == "never" {
		if err == nil {
			err = fmt.Errorf("the image on this machine is for %s/%s, not for %s", img.OS, img.Arch, platform)
		}
		return "", image{}, false, err
	}
	args := []string{"pull", "--quiet"}
	if platform != "" {
		args = append(args, "--platform", platform)
	}
	if o.Log != nil {
		o.Log.Info("pull image", "image", o.Arg)
	}
	if _, err := e.run(ctx, nil, append(args, o.Arg)...); err != nil {
		return "", image{}, false, fmt.Errorf("pull %s: %w", o.Arg, err)
	}
	img, err = e.image(ctx, o.Arg)
	return o.Arg, img, false, err
}

// has tells whether the image of a spec is on this machine or may be pulled.
func has(ctx context.Context, e engine, s env.Spec) env.Status {
	if s.Arg == "" || s.Get("pull", "missing") != "never" {
		return env.Status{OK: true}
	}
	switch _, err := e.image(ctx, s.Arg); {
	case err == nil:
		return env.Status{OK: true}
	case noSuch(err):
		return env.Status{Detail: "image " + s.Arg + " is not on this machine, and pull=never",
			Remedy: e.name + " image ls shows the images on this machine"}
	default:
		return env.Status{Detail: err.Error()}
	}
}

// image returns the engine's description of an image on this machine.
func (e engine) image(ctx context.Context, name string) (image, error) {
	out, err := e.run(ctx, nil, "image", "inspect", name)
	if err != nil {
		return image{}, err
	}
	return parseImage(out)
}

// matches tells whether the image is for the platform, OS/ARCH[/VARIANT]; "" means any.
func (i image) matches(platform string) bool {
	if platform == "" {
		return true
	}
	parts := strings.Split(platform, "/")
	return len(parts) >= 2 && i.OS == parts[0] && i.Arch == goArch(parts[1])
}

func findEmpty(ctx context.Context, e engine, a engineInfo) (img image, made bool, err error) {
	img, err = e.image(ctx, emptyImage)
	if err == nil || !noSuch(err) {
		return img, false, err
	}
	if a.OS != "linux" {
		return image{}, false,
			fmt.Errorf("make an empty image: the engine runs %s containers, but only linux ones can be empty", a.OS)
	}
	// The archive has one folder, because some versions reject an archive without entries.
	archive := agentArchive("", "", folder{strings.TrimPrefix(workDir, "/"), dirMode})
	defer archive.Close()
	if _, err := e.finish(ctx, archive, e.importInto(a, emptyImage)...); err != nil {
		return image{}, false, fmt.Errorf("make an empty image: %w", err)
	}
	if img, err = e.image(ctx, emptyImage); err != nil {
		// The user may have cancelled while the image was made, which is not interrupted.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		dropEmpty(undo, e)
		return image{}, false, err
	}
	return img, true, nil
}

// findStack returns the image of a stack, and imports it if the engine does not have it. It stays there until tare
// stack remove, as the stack itself does.
func findStack(ctx context.Context, e engine, a engineInfo, o env.Options) (name string, img image, err error) {
	st, _, _, err := stack.Of(&o.Spec, "")
	if err != nil {
		return "", img, err
	}
	name = st.ImageName()
	if img, err = e.image(ctx, name); err == nil || !noSuch(err) {
		return name, img, err
	}
	archive, err := st.Archive(ctx)
	if err != nil {
		return "", img, err
	}
	defer archive.Close()
	if _, err := e.finish(ctx, archive, e.importInto(a, name)...); err != nil {
		return "", img, fmt.Errorf("import stack %s: %w", st.Spec, err)
	}
	<-archive.Done()
	if err := archive.Err(); err != nil {
		_, _ = e.run(context.WithoutCancel(ctx), nil, "rmi", name) // it is not whole
		return "", img, fmt.Errorf("import stack %s: read its root: %w", st.Spec, err)
	}
	img, err = e.image(ctx, name)
	return name, img, err
}

// DropStack removes a stack's image from the engines on this machine that have it.
func DropStack(ctx context.Context, st stack.Stack) error {
	var errs []error
	for _, name := range []string{"docker", "podman"} {
		e := newEngine(name, "")
		if _, err := e.info(ctx); err != nil {
			continue // it is not here, or does not run
		}
		if _, err := e.run(ctx, nil, "rmi", st.ImageName()); err != nil && !noSuch(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// importInto are the arguments that make an image of an archive on standard input.
func (e engine) importInto(a engineInfo, name string) []string {
	if e.name == "podman" {
		return []string{"import", "--os", a.OS, "--arch", a.Arch, "-", name}
	}
	return []string{"import", "--platform", a.OS + "/" + a.Arch, "-", name}
}

// dropEmpty removes the empty image unless another container needs it; the engine checks that.
func dropEmpty(ctx context.Context, e engine) {
	// The engine refuses it while the image is in use; the last user removes it. Other errors are ignored, because
	// nothing can be done about them.
	_, _ = e.run(ctx, nil, "rmi", emptyImage)
}
