//! The steps for other platforms: built here, and run where there is an emulator. They install nothing
//! on the machine; downloads are under the target folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{create, list, only, write};
use crate::step::{Command, cargo};
use crate::{ep, python};

/// The options of tests that leave out those of large tensors, which take minutes under emulation.
const WITHOUT_LARGE: &str = "--skip=large --skip=streamed";

/// Another target, with its linker and emulator.
struct Cross {
    target: &'static str,
    linker: Option<&'static str>,
    runner: OsString,
    /// Environment variables of a run.
    variables: Vec<(&'static str, OsString)>,
}

impl Cross {
    /// A cargo command for the target.
    fn cargo(&self, command: &str) -> Command {
        let variable = |end| {
            let target = self.target.to_uppercase().replace('-', "_");
            format!("CARGO_TARGET_{target}_{end}")
        };
        let command = cargo(command).args(["--target", self.target]);
        let command = command.env(&variable("RUNNER"), &self.runner);
        let command = match self.linker {
            Some(linker) => command.env(&variable("LINKER"), linker),
            None => command,
        };
        let variables = self.variables.iter();
        variables.fold(command, |command, (name, value)| command.env(name, value))
    }

    /// The tests of packages, but those of large tensors, which have more than 32 bits address.
    fn test(&self, packages: &str, kinds: &str) -> Command {
        let packages = packages.split(' ');
        self.cargo("test")
            .args(packages.flat_map(|package| ["--package", package]))
            .words(kinds)
            .words("--no-fail-fast --")
            .words(WITHOUT_LARGE)
            .env("PROPTEST_CASES", "64")
    }

    /// Runs all models with the command, on tract and on ONNX Runtime with the provider, and the
    /// provider's tests in Rust.
    fn verify(&self, host: &OnnxRuntime) -> Result<(), String> {
        let verify = |backend: &str| {
            self.cargo("run")
                .words("--quiet --package revseq-runner -- verify models --backend")
                .arg(backend)
        };
        verify("tract").run()?;
        verify("ort")
            .arg("--ort-lib")
            .arg(&host.runtime)
            .arg("--ep-lib")
            .arg(&host.provider)
            .run()?;
        self.test("revseq-ep", "--test host")
            .env("REVSEQ_TEST_ORT_LIB", &host.runtime)
            .env("REVSEQ_EP_LIBRARY", &host.provider)
            .run()
    }
}

/// ONNX Runtime's library and the provider's out of its wheel, for another platform.
struct OnnxRuntime {
    runtime: PathBuf,
    provider: PathBuf,
}

impl OnnxRuntime {
    /// Builds the wheel, and takes the libraries out of it and of the packages in `site`.
    fn new(platform: &str, folder: &Path, site: &Path) -> Result<Self, String> {
        let unpacked = folder.join("wheel");
        let _ = fs::remove_dir_all(&unpacked);
        Command::new(python::INTERPRETER)
            .words("-m zipfile -e")
            .arg(ep::wheel(platform)?)
            .arg(&unpacked)
            .run()?;
        Ok(Self {
            runtime: only(&site.join("onnxruntime/capi"), |name| {
                name == "onnxruntime.dll" || name.starts_with("libonnxruntime.so.")
            })?,
            provider: only(&unpacked.join("onnxruntime_ep_revseq"), |name| {
                name.contains("revseq_ep.")
            })?,
        })
    }
}

/// Tests on Windows as far as Wine is it: the unit tests, and all models on tract and on the real
/// ONNX Runtime with the provider of the wheel.
pub(crate) fn windows() -> Result<(), String> {
    let (target, gcc) = ("x86_64-pc-windows-gnu", "x86_64-w64-mingw32-gcc");
    need(&["wine", gcc], "wine wine64 gcc-mingw-w64-x86-64-win32")?;
    need_target(target)?;
    let folder = make_folder("windows")?;
    // Wine 8 has no bcryptprimitives.dll, of which Rust's standard library needs this function.
    let source = folder.join("random.c");
    write(
        &source,
        "int SystemFunction036(void *, unsigned long);\n\
         int ProcessPrng(void *data, unsigned long long size) { return SystemFunction036(data, size); }\n",
    )?;
    Command::new(gcc)
        .args(["-shared", "-o"])
        .arg(folder.join("bcryptprimitives.dll"))
        .arg(&source)
        .arg("-ladvapi32")
        .run()?;
    let cross = Cross {
        target,
        linker: Some(gcc),
        runner: "wine".into(),
        variables: vec![
            ("WINEDEBUG", "-all".into()),
            ("WINEPREFIX", folder.join("prefix").into()),
            ("WINEPATH", folder.clone().into()),
        ],
    };
    let packages =
        "integer-products recurrent-layers revseq-kernels revseq-graph ep-plugin revseq-ep";
    cross.test(packages, "--lib").run()?;
    let site = folder.join("site");
    python::install_for(&["win_amd64"], "3.11", &ep::newest_requirements(), &site)?;
    cross.verify(&OnnxRuntime::new("windows-x86_64", &folder, &site)?)
}

/// The folder of downloads for AArch64.
const AARCH64: &str = "aarch64";

/// AArch64 under QEMU, with the options of the emulator.
fn qemu() -> Result<(Cross, [OsString; 4]), String> {
    let (target, gcc, qemu) = (
        "aarch64-unknown-linux-gnu",
        "aarch64-linux-gnu-gcc",
        "qemu-aarch64",
    );
    need(
        &[gcc, qemu],
        "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    )?;
    need_target(target)?;
    let root = root(&make_folder(AARCH64)?)?;
    let options = ["-cpu".into(), "max".into(), "-L".into(), root.into()];
    let mut runner = OsString::from(qemu);
    for option in &options {
        runner.push(" ");
        runner.push(option);
    }
    let cross = Cross {
        target,
        linker: Some(gcc),
        runner,
        variables: Vec::new(),
    };
    Ok((cross, options))
}

/// Tests the kernels on AArch64 under QEMU.
pub(crate) fn neon() -> Result<(), String> {
    let (cross, _) = qemu()?;
    cross
        .test("integer-products recurrent-layers", "--lib")
        .run()?;
    cross
        .test("recurrent-steps revseq-kernels revseq-graph", "--tests")
        .run()
}

/// Tests on AArch64 under QEMU: all models on tract and on ONNX Runtime, and the provider's Python tests.
pub(crate) fn aarch64() -> Result<(), String> {
    let (cross, options) = qemu()?;
    let [.., root] = &options;
    let python = || {
        Command::new("qemu-aarch64")
            .args(&options)
            .arg(Path::new(root).join("usr/bin/python3"))
    };
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = python().args(["-c", version]).output()?;
    let folder = make_folder(AARCH64)?;
    let site = folder.join("site");
    let tags: Vec<String> = (17..=28)
        .map(|glibc| format!("manylinux_2_{glibc}_aarch64"))
        .chain(["manylinux2014_aarch64".to_owned()])
        .collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    python::install_for(&tags, version.trim(), &ep::newest_requirements(), &site)?;
    let host = OnnxRuntime::new("linux-aarch64", &folder, &site)?;
    cross.verify(&host)?;
    python()
        .words(ep::PYTEST)
        .args(tests_of_one_process()?)
        .env("PYTHONPATH", &site)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("REVSEQ_EP_LIBRARY", &host.provider)
        .run()
}

/// Debian's packages of Python for arm64, unpacked: a root folder for QEMU.
fn root(folder: &Path) -> Result<PathBuf, String> {
    let root = folder.join("root");
    let cpuinfo = root.join("proc/cpuinfo");
    // Written last.
    if cpuinfo.is_file() {
        return Ok(root);
    }
    let (state, cache) = (folder.join("apt/state"), folder.join("apt/cache"));
    let archives = cache.join("archives");
    for folder in [&state.join("lists/partial"), &archives.join("partial")] {
        create(folder)?;
    }
    write(&state.join("status"), "")?;
    let apt = |words: &str| {
        let option = |name: &str, path: &Path| format!("-o={name}={}", path.display());
        Command::new("apt-get")
            .words("-qq -o=APT::Architecture=arm64 -o=APT::Architectures=arm64")
            .arg(option("Dir::State", &state))
            .arg(option("Dir::State::status", &state.join("status")))
            .arg(option("Dir::Cache", &cache))
            .words(words)
            .run()
    };
    apt("update")?;
    apt("install --yes --download-only --no-install-recommends python3 libstdc++6")?;
    for package in list(&archives)?.filter(|path| path.extension().is_some_and(|it| it == "deb")) {
        Command::new("dpkg")
            .arg("-x")
            .arg(package)
            .arg(&root)
            .run()?;
    }
    create(&root.join("proc"))?;
    // ONNX Runtime reads it. QEMU would show it this machine's, which is of another processor.
    let core = |index| {
        format!(
            "processor\t: {index}\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
             CPU variant\t: 0x0\nCPU part\t: 0xd07\nCPU revision\t: 0\n\n"
        )
    };
    write(&cpuinfo, &(core(0) + &core(1)))?;
    Ok(root)
}

/// The provider's Python tests that start no other process, which would not be emulated.
fn tests_of_one_process() -> Result<Vec<PathBuf>, String> {
    let mut tests: Vec<PathBuf> = list(&crate::root().join("crates/onnxruntime/revseq-ep/tests"))?
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let starts = fs::read_to_string(path)
                .is_ok_and(|text| text.contains("subprocess") || text.contains("harness.alone"));
            name.starts_with("test_") && name != "test_old_host.py" && !starts
        })
        .collect();
    tests.sort();
    Ok(tests)
}

/// Processors of x86-64 that lack what this one may have, without what QEMU would warn of. It emulates no
/// AVX-512, so that the second is one whose host hides some of it.
const PROCESSORS: [&str; 2] = [
    "Haswell,-hle,-invpcid,-pcid,-rtm,-tsc-deadline,-x2apic",
    "Skylake-Server,-3dnowprefetch,-avx512bw,-avx512cd,-avx512dq,-avx512f,-avx512vl,-hle,-invpcid,-pcid,\
     -rdseed,-rtm,-tsc-deadline,-x2apic,-xsavec",
];

/// Tests what chooses code by the processor on others under QEMU: layers, kernels, half floats and layers on
/// tract, all models on tract and on ONNX Runtime, and the provider's layers.
pub(crate) fn x86_64() -> Result<(), String> {
    need(&["qemu-x86_64"], "qemu-user")?;
    let [runtime, provider, python] = &ep::environment()?.map(|(_, path)| path);
    // The example keeps the features of all dependencies as the tests have them.
    crate::workspace("build")
        .words("--profile test --bin revseq --example rust")
        .run()?;
    PROCESSORS.iter().try_for_each(|processor| {
        eprintln!("\non {processor}");
        let test = |test: Command, names: &str| {
            let runner = format!("qemu-x86_64 -cpu {processor}");
            test.words(names)
                .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner)
                .env("PROPTEST_CASES", "16")
                .run()
        };
        let kernels =
            "--package integer-products --package recurrent-layers --package revseq-kernels --lib";
        test(cargo("test"), &format!("{kernels} -- {WITHOUT_LARGE}"))?;
        test(cargo("test"), "--package recurrent-steps --tests")?;
        test(
            crate::workspace("test"),
            "--test loops -- floats:: layers_compute",
        )?;
        let emulated = |program: &Path| {
            let emulated = Command::new("qemu-x86_64").args(["-cpu", processor]);
            emulated.arg(program)
        };
        let verify = |backend: &str| {
            let verify = emulated(&crate::target().join("debug/revseq"));
            verify.words("verify models --quiet --backend").arg(backend)
        };
        verify("tract").run()?;
        verify("ort")
            .arg("--ort-lib")
            .arg(runtime)
            .arg("--ep-lib")
            .arg(provider)
            .run()?;
        emulated(python)
            .words(ep::PYTEST)
            .arg("crates/onnxruntime/revseq-ep/tests/test_layers.py")
            // Threads that wait for each other take minutes under emulation.
            .args([
                "-k",
                "not threads and not same_time and not memory and not closed",
            ])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("REVSEQ_EP_LIBRARY", provider)
            .run()
    })
}

/// Tests WebAssembly in Node: the kernels, the tract op with models, and the loops.
pub(crate) fn wasm() -> Result<(), String> {
    let target = "wasm32-wasip1";
    need(&["node"], "nodejs")?;
    need_target(target)?;
    let mut runner = OsString::from("node --no-warnings ");
    runner.push(crate::root().join("crates/tools/xtask/wasi.mjs"));
    let cross = Cross {
        target,
        linker: None,
        runner,
        variables: Vec::new(),
    };
    let packages = "integer-products recurrent-layers revseq-kernels revseq-graph";
    cross.test(packages, "--lib").run()?;
    cross.test("recurrent-steps", "--tests").run()?;
    let tests = "--test op --test slice --test read --test loops";
    cross
        .test("revseq-tract revseq-tract-operators", tests)
        .run()
}

/// Tests the kernels with addresses of 32 bits.
pub(crate) fn i686() -> Result<(), String> {
    let target = "i686-unknown-linux-gnu";
    need_target(target)?;
    let cross = Cross {
        target,
        linker: None,
        runner: "env".into(),
        variables: Vec::new(),
    };
    cross.test("revseq-kernels", "--tests").run()
}

/// Fails unless the programs are there; says which packages have them.
pub(crate) fn need(programs: &[&str], packages: &str) -> Result<(), String> {
    programs.iter().try_for_each(|program| {
        let there = Command::new(program).arg("--version").output();
        there
            .map(|_| ())
            .map_err(|_| format!("there is no {program}: apt-get install {packages}"))
    })
}

/// Fails unless Rust's standard library for a target is there.
fn need_target(target: &str) -> Result<(), String> {
    let rustc = Command::new("rustc").words("--print target-libdir --target");
    let printed = rustc.arg(target).output()?;
    match Path::new(printed.trim()).is_dir() {
        true => Ok(()),
        false => Err(format!(
            "there is no standard library for {target}: rustup target add {target}"
        )),
    }
}

/// A folder of a step, in the target folder.
fn make_folder(name: &str) -> Result<PathBuf, String> {
    let folder = crate::target().join("platforms").join(name);
    create(&folder).map(|()| folder)
}
