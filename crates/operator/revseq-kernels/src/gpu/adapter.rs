//! Adapters: listing them and choosing one.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use super::Error;
use super::sync::ready;

/// Choice among the adapters of the GPUs that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdapterChoice {
    /// The best hardware: discrete before integrated before virtual. Never software.
    #[default]
    Auto,
    /// The first adapter that runs on the CPU, such as lavapipe.
    Software,
    /// The adapter at this index of [`adapters`].
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

/// An adapter: a GPU through a graphics API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// Its index in [`adapters`].
    pub index: usize,
    /// Its name.
    pub name: String,
    /// The graphics API.
    pub backend: wgpu::Backend,
    /// The type: discrete, integrated, virtual, or on the CPU.
    pub device_type: wgpu::DeviceType,
    /// The driver's name and version.
    pub driver: String,
    /// The most bytes of a buffer.
    pub max_buffer_bytes: u64,
    /// The most bytes of a buffer that one dispatch can reach.
    pub max_binding_bytes: u64,
    /// The most workgroups of a dispatch in each dimension.
    pub max_workgroups: u32,
    /// Whether it can measure times.
    pub timestamps: bool,
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, name) = (self.index, &self.name);
        write!(f, "{index}: {name} ({}, {})", self.backend, self.kind())
    }
}

impl AdapterInfo {
    /// The kind of adapter: `discrete`, `integrated`, `virtual`, `software` or
    /// `of unknown kind`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Cpu => "software",
            wgpu::DeviceType::Other => "of unknown kind",
        }
    }

    pub(super) fn new(
        index: usize,
        info: wgpu::AdapterInfo,
        limits: &wgpu::Limits,
        features: wgpu::Features,
    ) -> Self {
        Self {
            index,
            name: info.name,
            backend: info.backend,
            device_type: info.device_type,
            driver: format!("{} {}", info.driver, info.driver_info)
                .trim()
                .to_owned(),
            max_buffer_bytes: limits.max_buffer_size,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        }
    }

    /// Returns the adapter's rank, 0 for the best; `None` for software.
    fn rank(&self) -> Option<u8> {
        match self.device_type {
            wgpu::DeviceType::DiscreteGpu => Some(0),
            wgpu::DeviceType::IntegratedGpu => Some(1),
            wgpu::DeviceType::VirtualGpu => Some(2),
            wgpu::DeviceType::Other => Some(3),
            wgpu::DeviceType::Cpu => None,
        }
    }
}

/// All adapters of these graphics APIs, in the order of [`AdapterChoice::Index`].
///
/// Skips APIs that this crate was built without.
#[must_use]
pub fn adapters(backends: wgpu::Backends) -> Vec<AdapterInfo> {
    enumerate(backends)
        .into_iter()
        .map(|(info, _)| info)
        .collect()
}

fn enumerate(backends: wgpu::Backends) -> Vec<(AdapterInfo, wgpu::Adapter)> {
    let backends = backends & wgpu::Instance::enabled_backend_features();
    if backends.is_empty() {
        return Vec::new();
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        ..wgpu::InstanceDescriptor::new_without_display_handle_from_env()
    });
    ready(instance.enumerate_adapters(backends))
        .into_iter()
        // Some GL drivers have no compute shaders.
        .filter(|adapter| adapter.limits().max_compute_workgroups_per_dimension > 0)
        .enumerate()
        .map(|(index, adapter)| {
            let (info, limits) = (adapter.get_info(), adapter.limits());
            let info = AdapterInfo::new(index, info, &limits, adapter.features());
            (info, adapter)
        })
        .collect()
}

/// The adapter of a choice.
pub(super) fn choose(
    choice: &AdapterChoice,
    backends: wgpu::Backends,
) -> Result<(AdapterInfo, wgpu::Adapter), Error> {
    let found = enumerate(backends);
    let infos: Vec<_> = found.iter().map(|(info, _)| info).collect();
    let chosen = select(choice, &infos);
    let names = infos.iter().map(ToString::to_string).collect();
    chosen
        .and_then(|index| found.into_iter().nth(index))
        .ok_or_else(|| Error::NoAdapter {
            wanted: choice.clone(),
            found: names,
        })
}

fn select(choice: &AdapterChoice, found: &[&AdapterInfo]) -> Option<usize> {
    match choice {
        AdapterChoice::Auto => (0..found.len())
            .filter(|&index| found[index].rank().is_some())
            .min_by_key(|&index| found[index].rank()),
        AdapterChoice::Software => found
            .iter()
            .position(|info| info.device_type == wgpu::DeviceType::Cpu),
        AdapterChoice::Index(index) => (*index < found.len()).then_some(*index),
        AdapterChoice::Name(name) => {
            let name = name.to_lowercase();
            found
                .iter()
                .position(|info| info.name.to_lowercase().contains(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(index: usize, name: &str, device_type: wgpu::DeviceType) -> AdapterInfo {
        AdapterInfo {
            index,
            name: name.to_owned(),
            backend: wgpu::Backend::Vulkan,
            device_type,
            driver: String::new(),
            max_buffer_bytes: 0,
            max_binding_bytes: 0,
            max_workgroups: 0,
            timestamps: false,
        }
    }

    #[test]
    fn auto_takes_the_best_hardware_and_never_software() {
        use wgpu::DeviceType::{Cpu, DiscreteGpu, IntegratedGpu};
        let (software, small, large) = (
            info(0, "llvmpipe", Cpu),
            info(1, "Small", IntegratedGpu),
            info(2, "Large", DiscreteGpu),
        );
        let choose = |choice: &str, found: &[&AdapterInfo]| {
            let Ok(choice) = choice.parse();
            select(&choice, found)
        };
        let all = [&software, &small, &large];
        assert_eq!(choose("auto", &all), Some(2));
        assert_eq!(choose("auto", &all[..2]), Some(1));
        assert_eq!(choose("auto", &all[..1]), None);
        assert_eq!(choose("software", &all), Some(0));
        assert_eq!(choose("software", &all[1..]), None);
        assert_eq!(choose("1", &all), Some(1));
        assert_eq!(choose("3", &all), None);
        assert_eq!(choose("LARGE", &all), Some(2));
        assert_eq!(choose("none such", &all), None);
    }
}
