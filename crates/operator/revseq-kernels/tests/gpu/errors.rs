//! Failures on a GPU are errors with their values, never panics.

use std::time::Duration;

use revseq_kernels::gpu::{
    self, AdapterChoice, Context, ContextOptions, Error, LengthsSlice, ReverseSubsequencesPass,
    wgpu,
};
use revseq_kernels::{
    DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, Tensor,
};

use crate::adapters::{Arena, contexts, contexts_with, software_adapters};

fn plan(data_type: DataType, sizes: &[u64]) -> Plan {
    let axis = sizes.len() as u32 - 1;
    let desc = ReverseSubsequencesDesc::packed(data_type, sizes, DataType::Int32, axis);
    Plan::new(&desc).unwrap()
}

fn buffer(context: &Context, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    context.device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage,
        mapped_at_creation: false,
    })
}

const STORAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE;

fn lengths(slice: wgpu::BufferSlice<'_>) -> LengthsSlice<'_> {
    LengthsSlice {
        slice,
        data_type: DataType::Int32,
    }
}

/// Runs 4 rows of 100 bytes from the host, and returns whether they are reversed.
fn works(context: &Context) -> Result<bool, Error> {
    let plan = plan(DataType::Uint8, &[4, 100]);
    let pass = ReverseSubsequencesPass::new(context, &plan)?;
    let lengths = SequenceLengths::new(&plan, &[100_i32; 4], LengthsPolicy::Reject)?;
    let input: Vec<u8> = (0..400).map(|index| (index % 100) as u8).collect();
    let mut output = vec![0; 400];
    gpu::run(&pass, &lengths, &input, &mut output)?;
    Ok(output
        .iter()
        .enumerate()
        .all(|(index, &byte)| usize::from(byte) == 99 - index % 100))
}

#[test]
fn a_missing_adapter_is_refused_with_a_list_of_adapters() {
    let mut options = ContextOptions::default();
    options.adapter = AdapterChoice::Name("no such adapter".to_owned());
    let error = Context::new(&options).unwrap_err();
    let found: Vec<_> = gpu::adapters(options.backends)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        error,
        Error::NoAdapter {
            wanted: options.adapter.clone(),
            found: found.clone()
        }
    );
    let message = error.to_string();
    assert!(message.starts_with("no \"no such adapter\" adapter; found "));
    assert!(found.iter().all(|adapter| message.contains(adapter)));

    options.backends = wgpu::Backends::empty();
    assert_eq!(
        Context::new(&options).unwrap_err().to_string(),
        "no \"no such adapter\" adapter; found none"
    );
}

#[test]
fn automatic_choice_never_takes_software() {
    match Context::new(&ContextOptions::default()) {
        Ok(context) => assert_ne!(context.adapter().device_type, wgpu::DeviceType::Cpu),
        Err(error) => assert!(matches!(error, Error::NoAdapter { .. }), "{error}"),
    }
}

#[test]
fn buffers_are_checked_before_anything_is_recorded() {
    for context in contexts() {
        let pass =
            ReverseSubsequencesPass::new(&context, &plan(DataType::Float32, &[4, 8])).unwrap();
        let data = buffer(&context, 512, STORAGE);
        let other = buffer(&context, 512, STORAGE);
        let copied = buffer(&context, 512, wgpu::BufferUsages::COPY_SRC);
        let all = lengths(other.slice(256..));
        let input = data.slice(..128);
        let output = other.slice(..128);
        assert_eq!(pass.bind(input, all, output).unwrap().dispatch_count(), 1);

        let bind = |input, lengths, output| pass.bind(input, lengths, output).unwrap_err();
        assert_eq!(
            bind(data.slice(2..), all, output),
            Error::MisalignedOffset {
                tensor: Tensor::Input,
                offset: 2,
                alignment: 4
            }
        );
        assert_eq!(
            bind(input, all, other.slice(..124)),
            Error::Operator(revseq_kernels::Error::BufferTooShort {
                tensor: Tensor::Output,
                actual: 124,
                required: 128
            })
        );
        assert_eq!(
            bind(input, lengths(other.slice(500..)), output),
            Error::Operator(revseq_kernels::Error::BufferTooShort {
                tensor: Tensor::SequenceLengths,
                actual: 12,
                required: 16
            })
        );
        assert_eq!(
            bind(copied.slice(..), all, output),
            Error::MissingUsage {
                tensor: Tensor::Input,
                actual: wgpu::BufferUsages::COPY_SRC,
                required: STORAGE
            }
        );
        assert_eq!(
            bind(other.slice(124..), all, output),
            Error::Overlap {
                tensor: Tensor::Input,
                start: 124,
                end: 252,
                written: "the output",
                written_start: 0,
                written_end: 128
            }
        );
        let floats = LengthsSlice {
            data_type: DataType::Float32,
            ..all
        };
        assert!(matches!(
            bind(input, floats, output),
            Error::Operator(revseq_kernels::Error::UnsupportedDataType { .. })
        ));
        let in_place = pass.bind_in_place(output, lengths(other.slice(120..)));
        assert!(matches!(
            in_place,
            Err(Error::Overlap {
                tensor: Tensor::SequenceLengths,
                ..
            })
        ));
    }
}

#[test]
fn the_last_word_has_to_be_in_the_buffer() {
    for context in contexts() {
        let pass = ReverseSubsequencesPass::new(&context, &plan(DataType::Uint8, &[1, 5])).unwrap();
        let [short, long, other] = [5, 8, 64].map(|size| buffer(&context, size, STORAGE));
        let all = lengths(other.slice(..));
        // 5 bytes of a longer buffer suffice: the bytes after them keep their values.
        assert!(pass.bind_in_place(long.slice(..5), all).is_ok());
        assert_eq!(
            pass.bind_in_place(short.slice(..), all).unwrap_err(),
            Error::Operator(revseq_kernels::Error::BufferTooShort {
                tensor: Tensor::Output,
                actual: 5,
                required: 8
            })
        );
    }
}

#[test]
fn a_buffer_of_another_device_is_an_error() {
    for index in software_adapters() {
        let adapter = adapter(index);
        let [context, lender] = [(); 2].map(|()| {
            let (device, queue) = ready(adapter.request_device(&Default::default())).unwrap();
            Context::from_device(device, queue)
        });
        let pass =
            ReverseSubsequencesPass::new(&context, &plan(DataType::Float32, &[4, 8])).unwrap();
        let [own, lent] = [&context, &lender].map(|on| buffer(on, 512, STORAGE));
        let all = lengths(own.slice(..));
        let error = pass.bind_in_place(lent.slice(..), all).unwrap_err();
        assert!(matches!(error, Error::Validation { .. }), "{error}");
        assert!(works(&context).unwrap());
    }
}

/// A wgpu adapter by the index that it has in the list.
fn adapter(index: usize) -> wgpu::Adapter {
    let backends = wgpu::Instance::enabled_backend_features();
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapters = ready(instance.enumerate_adapters(backends));
    adapters.into_iter().nth(index).unwrap()
}

/// The result of a future that is ready.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut task) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("wgpu's futures are ready at once"),
    }
}

/// Another device on the same adapter.
fn another(context: &Context) -> Context {
    let mut options = ContextOptions::default();
    options.adapter = AdapterChoice::Index(context.adapter().index);
    Context::new(&options).unwrap()
}

#[test]
fn an_axis_of_more_than_32_bits_is_an_error() {
    for context in contexts() {
        let axis = plan(DataType::Uint8, &[1, 1 << 32]);
        assert_eq!(
            ReverseSubsequencesPass::new(&context, &axis).unwrap_err(),
            Error::UnsupportedSize {
                what: "elements of the axis",
                actual: 1 << 32,
                maximum: u32::MAX.into()
            }
        );
    }
}

#[test]
fn a_binding_too_small_for_an_element_is_an_error() {
    for context in contexts_with(|options| options.max_binding_bytes = Some(16)) {
        let pass =
            ReverseSubsequencesPass::new(&context, &plan(DataType::Float32, &[4, 8])).unwrap();
        let [data, other] = [(); 2].map(|()| buffer(&context, 512, STORAGE));
        let all = lengths(other.slice(..));
        assert_eq!(
            pass.bind_in_place(data.slice(28..), all).unwrap_err(),
            Error::UnsupportedSize {
                what: "bytes to bind for one element of the input",
                actual: 32,
                maximum: 16
            }
        );
    }
}

#[test]
fn a_lost_device_is_an_error_and_a_new_context_works() {
    for index in software_adapters() {
        let mut options = ContextOptions::default();
        options.adapter = AdapterChoice::Index(index);
        let context = Context::new(&options).unwrap();
        assert!(works(&context).unwrap());
        let plan = plan(DataType::Float32, &[4, 8]);
        let pass = ReverseSubsequencesPass::new(&context, &plan).unwrap();
        let data = buffer(&context, 512, STORAGE);

        context.device().destroy();
        let error = works(&context).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        let error = pass
            .bind_in_place(data.slice(..128), lengths(data.slice(256..)))
            .unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");

        assert!(works(&Context::new(&options).unwrap()).unwrap());
    }
}

/// Whatever runs on other threads are doing when it goes.
#[test]
fn a_device_that_is_lost_during_runs_is_an_error() {
    for context in contexts() {
        for microseconds in (0..4000).step_by(200) {
            let context = another(&context);
            let runs = || loop {
                match works(&context) {
                    Ok(reversed) => assert!(reversed),
                    Err(error) => break error,
                }
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(runs)).collect();
                std::thread::sleep(Duration::from_micros(microseconds));
                context.device().destroy();
                for thread in threads {
                    let error = thread.join().unwrap();
                    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
                }
            });
        }
    }
}

#[test]
fn a_caller_s_device_works_and_its_loss_is_an_error() {
    for context in contexts() {
        let lender = another(&context);
        let (device, queue) = (lender.device().clone(), lender.queue().clone());
        let borrowed = Context::from_device(device, queue);
        assert!(works(&borrowed).unwrap());
        borrowed.device().destroy();
        let error = works(&borrowed).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    }
}

#[test]
fn threads_share_a_context() {
    for context in contexts() {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..50).all(|_| works(&context).unwrap())))
                .collect();
            for thread in threads {
                assert!(thread.join().unwrap());
            }
        });
    }
}

#[test]
fn nothing_is_recorded_for_an_empty_tensor() {
    for context in contexts() {
        let pass =
            ReverseSubsequencesPass::new(&context, &plan(DataType::Float32, &[0, 8])).unwrap();
        let arena = Arena::new(&context, &[&[0; 4], &[0; 4]], [0; 3], false);
        let slice = lengths(arena.slice(1));
        let bound = pass.bind_in_place(arena.slice(0), slice).unwrap();
        assert_eq!(bound.dispatch_count(), 0);
        let mut encoder = arena.encoder();
        pass.encode_in_place(&mut encoder, arena.slice(0), slice)
            .unwrap();
        assert_eq!(arena.submit(encoder), arena.bytes);
    }
}

#[test]
fn timestamps_are_enabled_where_there_are_any() {
    for index in software_adapters() {
        let mut options = ContextOptions::default();
        options.adapter = AdapterChoice::Index(index);
        let features = |options| Context::new(options).unwrap().device().features();
        assert!(!features(&options).contains(wgpu::Features::TIMESTAMP_QUERY));
        options.timestamps = true;
        let context = Context::new(&options).unwrap();
        assert_eq!(
            context
                .device()
                .features()
                .contains(wgpu::Features::TIMESTAMP_QUERY),
            context.adapter().timestamps
        );
    }
}
