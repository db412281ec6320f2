//! The names of devices that the operator runs on.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A device that the operator runs on.
///
/// Written `cpu`, `gpu`, or `gpu:` and an [`AdapterChoice`]. It exists without
/// the feature `wgpu`, too, so that a build without GPU support can name the
/// requested device in its error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The processor: module [`cpu`](crate::cpu).
    #[default]
    Cpu,
    /// A GPU: module `gpu`.
    Gpu(AdapterChoice),
}

impl FromStr for Device {
    type Err = Error;

    /// # Errors
    /// [`Error::UnknownDevice`].
    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::UnknownDevice {
            actual: text.to_owned(),
        };
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "gpu" => Ok(Self::Gpu(AdapterChoice::Auto)),
            // A blank name would match any adapter, even a software one.
            Some(("gpu", choice)) if !choice.trim().is_empty() => {
                let Ok(choice) = choice.trim().parse();
                Ok(Self::Gpu(choice))
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(AdapterChoice::Auto) => f.write_str("gpu"),
            Self::Gpu(AdapterChoice::Software) => f.write_str("gpu:software"),
            Self::Gpu(AdapterChoice::Index(index)) => write!(f, "gpu:{index}"),
            Self::Gpu(AdapterChoice::Name(name)) => write!(f, "gpu:{name}"),
        }
    }
}

/// Choice among the adapters of the GPUs that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdapterChoice {
    /// The best hardware: discrete before integrated before virtual. Never software.
    #[default]
    Auto,
    /// The first adapter that runs on the CPU, such as lavapipe.
    Software,
    /// The adapter at this index of `gpu::adapters`.
    Index(usize),
    /// The first adapter whose name contains this, in any case of letters.
    Name(String),
}

impl FromStr for AdapterChoice {
    type Err = Infallible;

    /// Parses `auto`, `software`, an index, or anything else as a name.
    fn from_str(choice: &str) -> Result<Self, Infallible> {
        Ok(match choice {
            "auto" => Self::Auto,
            "software" => Self::Software,
            _ => match choice.parse() {
                Ok(index) => Self::Index(index),
                Err(_) => Self::Name(choice.to_owned()),
            },
        })
    }
}

impl fmt::Display for AdapterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("hardware"),
            Self::Software => f.write_str("software"),
            Self::Index(index) => write!(f, "number {index}"),
            Self::Name(name) => write!(f, "\"{name}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_round_trip() {
        let gpu = Device::Gpu;
        for (text, device) in [
            ("cpu", Device::Cpu),
            ("gpu", gpu(AdapterChoice::Auto)),
            ("gpu:software", gpu(AdapterChoice::Software)),
            ("gpu:2", gpu(AdapterChoice::Index(2))),
            ("gpu:RTX", gpu(AdapterChoice::Name("RTX".to_owned()))),
        ] {
            assert_eq!(text.parse(), Ok(device.clone()));
            assert_eq!(device.to_string(), text);
        }
        assert_eq!("gpu:auto".parse(), Ok(gpu(AdapterChoice::Auto)));
        for text in ["", "CPU", "cpu:0", "gpu:", "gpu: ", "cuda", "software", "0"] {
            let error = Device::from_str(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("device {text:?}: expected cpu, gpu, gpu:INDEX, gpu:NAME or gpu:software")
            );
        }
    }
}
