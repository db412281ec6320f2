//! The windows of a convolution as an operand of a product of matrices.

use std::cell::RefCell;
use std::fmt;

use tract_onnx::tract_core::ops::cnn::PoolSpec;
use tract_onnx::tract_core::ops::matmul::pack::DynPackedExoticFact;
use tract_onnx::tract_core::tract_linalg::mmm::{
    MMMInputFormat, MMMInputValue, PackedExoticFact, PackedMatrixStorage,
};
use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;
use tract_onnx::tract_hir::internal::*;

use super::windows::Windows;

use crate::typed_op::Stateless;

/// The windows of images, by image and group: [batch, group]; of all images together: [1, group].
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(super) struct ConvWindows {
    pub(super) pool: PoolSpec,
    pub(super) group: usize,
    pub(super) is_joined: bool,
    pub(super) format: PackedFormat,
    /// Whether windows are packed where they are needed; otherwise, all of them at once.
    pub(super) is_lazy: bool,
}

impl ConvWindows {
    /// Returns the numbers of a window.
    pub(super) fn k(&self) -> usize {
        let window: usize = self.pool.kernel_shape.iter().product();
        self.pool.input_channels / self.group * window
    }
}

impl Stateless for ConvWindows {
    const NAME: &str = "ConvWindows";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.pool.info())
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let image = args_1!(inputs);
        let windows = Windows::new(&self.pool, image.shape(), self.is_joined)?;
        let windows = Arc::new(windows);
        let batch = match self.pool.data_format.has_n() {
            true => image.shape()[0],
            false => 1,
        };
        let images = windows.lay_out(image, batch, 0_f32)?;
        let channels = self.pool.input_channels / self.group;
        let batch = if self.is_joined { 1 } else { batch };
        let all = (0..batch * self.group).map(|index| {
            let group = index % self.group;
            let packed = PackedWindows {
                windows: windows.clone(),
                images: images.clone(),
                image: index / self.group,
                range: group * channels..(group + 1) * channels,
                fact: PackedExoticFact {
                    format: Box::new(self.format.clone()),
                    mn: windows.count().to_dim(),
                    k: self.k(),
                },
                width: self.format.r,
            };
            if self.is_lazy {
                Ok(Box::new(packed) as Box<dyn MMMInputValue>)
            } else {
                packed.all(&self.format)
            }
        });
        let all = all.collect::<TractResult<TVec<_>>>()?;
        let all = PackedMatrixStorage::new_batched(&[batch, self.group], all);
        Ok(tvec!(all.into_tensor(f32::datum_type()).into_tvalue()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let windows = self.pool.output_shape(&inputs[0].shape)?;
        let of_image: TDim = windows.hw_dims().iter().product();
        let batch = windows.n().cloned().unwrap_or_else(|| 1.to_dim());
        let (batch, mn) = match self.is_joined {
            true => (1.to_dim(), batch * of_image),
            false => (batch, of_image),
        };
        let packed = DynPackedExoticFact {
            k: self.k().to_dim(),
            mn,
            packers: vec![Box::new(self.format.clone())],
        };
        let fact = f32::fact([batch, self.group.to_dim()]);
        Ok(tvec!(fact.with_exotic_fact(packed)))
    }
}

/// The windows of some channels of an image.
#[derive(Clone, Debug)]
struct PackedWindows {
    windows: Arc<Windows>,
    /// All images, as they are laid out.
    images: TValue,
    image: usize,
    /// The channels.
    range: std::ops::Range<usize>,
    fact: PackedExoticFact,
    /// The windows of a panel.
    width: usize,
}

thread_local! {
    /// The panel that this thread was asked for last, which is written whenever one is asked for. tract asks
    /// on any of its threads, by a shared reference, and keeps what is returned by its address: no state of the
    /// operator could hold it.
    static PANEL: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
}

impl MMMInputValue for PackedWindows {
    fn format(&self) -> &dyn MMMInputFormat {
        &*self.fact.format
    }

    /// `None`: tract's buffer can be written by unsafe code alone.
    fn scratch_panel_buffer_layout(&self) -> Option<std::alloc::Layout> {
        None
    }

    /// Returns a panel that is valid until this thread asks for another: a product asks for one at a
    /// time, and keeps a panel for as long as it needs no other.
    fn panel_bytes(&self, panel: usize, _buffer: Option<*mut u8>) -> TractResult<*const u8> {
        let format = self.fact.format.downcast_ref::<PackedFormat>();
        let alignment = format.context("plain panels")?.alignment();
        let images = self.images.try_as_plain_ram()?.as_slice::<f32>()?;
        let length = self.k() * self.width;
        PANEL.with_borrow_mut(|numbers| {
            if numbers.len() < length + alignment {
                *numbers = vec![0.0; length + alignment];
            }
            let aligned = numbers.as_ptr().align_offset(alignment);
            let numbers = &mut numbers[aligned..aligned + length];
            self.pack(images, panel, numbers);
            Ok(numbers.as_ptr().cast())
        })
    }

    fn mn(&self) -> usize {
        self.windows.count()
    }

    fn k(&self) -> usize {
        self.fact.k
    }

    fn exotic_fact(&self) -> &dyn ExoticFact {
        &self.fact
    }

    fn extract_at_mn_f16(&self, _: usize, _: &mut [f16]) -> TractResult<()> {
        bail!("windows are read in panels")
    }

    fn extract_at_mn_f32(&self, _: usize, _: &mut [f32]) -> TractResult<()> {
        bail!("windows are read in panels")
    }
}

impl PackedWindows {
    /// Packs all windows.
    fn all(&self, format: &PackedFormat) -> TractResult<Box<dyn MMMInputValue>> {
        let mut packed = format.new_packed_buffer(self.k(), self.mn())?;
        if self.mn() == 0 {
            return Ok(Box::new(packed));
        }
        let images = self.images.try_as_plain_ram()?.as_slice::<f32>()?;
        let length = packed.panel_bytes / size_of::<f32>();
        let numbers = Arc::get_mut(&mut packed.packed).context("a buffer of its own")?;
        let numbers: &mut [f32] = bytemuck::cast_slice_mut(numbers.as_bytes_mut());
        let work = numbers.len();
        multithread::par_chunks_mut(numbers, length, work, |first, panels| {
            for (index, panel) in panels.chunks_mut(length).enumerate() {
                self.pack(images, first + index, panel);
            }
            Ok(())
        })?;
        Ok(Box::new(packed))
    }

    /// Packs a panel. What lies behind the last window counts for nothing.
    fn pack(&self, images: &[f32], panel: usize, to: &mut [f32]) {
        let Self { windows, width, .. } = self;
        let runs = windows.runs(panel * width, *width);
        let image = &images[self.image * windows.image()..];
        let planes = self
            .range
            .clone()
            .map(|plane| &image[windows.plane(plane)..]);
        for (plane, rows) in planes.zip(to.chunks_exact_mut(width * windows.taps().len())) {
            for (tap, mut row) in windows.taps().iter().zip(rows.chunks_exact_mut(*width)) {
                for (start, count) in &runs {
                    let (run, rest) = row.split_at_mut(*count);
                    copy(&plane[tap + start..][..*count], run);
                    row = rest;
                }
            }
        }
    }
}

/// Copies numbers, of which there are often whole vectors.
fn copy(from: &[f32], to: &mut [f32]) {
    let (from, from_rest) = from.as_chunks::<8>();
    let (to, to_rest) = to.as_chunks_mut::<8>();
    from.iter().zip(to).for_each(|(from, to)| *to = *from);
    let rest = from_rest.iter().zip(to_rest);
    rest.for_each(|(from, to)| *to = *from);
}

/// The same numbers of the same image.
impl PartialEq for PackedWindows {
    fn eq(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.image, it.range.clone());
        place(self) == place(other)
            && (&self.images, &self.windows) == (&other.images, &other.windows)
    }
}

impl Eq for PackedWindows {}

impl std::hash::Hash for PackedWindows {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.image, &self.range).hash(state);
    }
}

impl fmt::Display for PackedWindows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "windows of channels {:?} of image {}",
            self.range, self.image
        )
    }
}
