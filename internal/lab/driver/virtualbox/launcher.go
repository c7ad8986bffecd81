package virtualbox

// VBoxHeadless itself cannot run without VirtualBox's kernel driver: the program that is installed only starts the real
// one in VBoxHeadless.so, with the driver's protection, and passes no word about doing without. This launcher does what
// its unprotected build does. All else is VirtualBox's own.
//
// The flags are RTR3INIT_FLAGS_TRY_SUPLIB, and in the bits for the support library SUPR3INIT_F_DRIVERLESS_IEM_ALLOWED.
const launcher = `
import ctypes, sys
folder = sys.argv[1]
args = [folder + "/VBoxHeadless"] + sys.argv[2:]
argc = len(args)
array = (ctypes.c_char_p * (len(args) + 1))(*[a.encode() for a in args], None)
argv = ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p))
runtime = ctypes.CDLL(folder + "/VBoxRT.so", mode=ctypes.RTLD_GLOBAL)
status = runtime.RTR3InitExe(argc, ctypes.byref(argv), ctypes.c_uint32(1 << 17 | 8 << 18))
if status < 0:
    sys.exit("RTR3InitExe: %d" % status)
environment = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
sys.exit(ctypes.CDLL(folder + "/VBoxHeadless.so").TrustedMain(argc, argv, environment))
`

// launcherFact is how the facts name it.
const launcherFact = "launcher replaced: VBoxHeadless.so was started without VirtualBox's kernel driver by a script " +
	"of tare's, because VBoxHeadless refuses to"
