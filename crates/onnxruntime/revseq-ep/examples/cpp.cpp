// Runs a model with RevSeqExecutionProvider from C++, by ONNX Runtime's C header.
//
//   g++ -std=c++17 -I<folder of onnxruntime_c_api.h> cpp.cpp <libonnxruntime.so> -o example
//   ./example librevseq_ep.so models/shapes/rank3_batch0_time2/model.onnx
//   ./example librevseq_ep.so models/exported/keras_bilstm_masked/model.onnx loops
//
// ONNX Runtime refuses the first model without the provider, which has all of its nodes. With "loops", the
// provider also computes loops that are recurrent layers, and other nodes run on ONNX Runtime's CPU
// provider. Any model will do whose inputs are float or int64 tensors; sizes that are not known are 4
// here. The header comes with ONNX Runtime's releases; that of any version from 1.24 on will do.

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

static const OrtApi* api = nullptr;

static void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::string message = api->GetErrorMessage(status);
  api->ReleaseStatus(status);
  throw std::runtime_error(message);
}

static void run(OrtEnv* env, const char* model, bool loops) {
  const OrtEpDevice* const* found = nullptr;
  std::size_t count = 0;
  check(api->GetEpDevices(env, &found, &count));
  std::vector<const OrtEpDevice*> devices;
  for (std::size_t index = 0; index < count; ++index) {
    if (std::strcmp(api->EpDevice_EpName(found[index]), "RevSeqExecutionProvider") == 0) {
      devices.push_back(found[index]);
    }
  }
  OrtSessionOptions* options = nullptr;
  check(api->CreateSessionOptions(&options));
  const char* keys[] = {"lengths", "loops"};
  const char* values[] = {"reject", loops ? "layers" : "keep"};
  check(api->SessionOptionsAppendExecutionProvider_V2(options, env, devices.data(), devices.size(),
                                                      keys, values, 2));
  if (!loops) {
    // No node may fall back: making the session fails if one would.
    check(api->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  }
  OrtSession* session = nullptr;
  check(api->CreateSession(env, model, options, &session));
  api->ReleaseSessionOptions(options);

  OrtAllocator* allocator = nullptr;
  OrtMemoryInfo* memory = nullptr;
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  std::size_t inputs = 0;
  check(api->SessionGetInputCount(session, &inputs));
  std::vector<char*> names(inputs);
  std::vector<OrtValue*> values_in(inputs);
  std::vector<std::vector<float>> floats(inputs);
  std::vector<std::vector<std::int64_t>> integers(inputs);
  for (std::size_t index = 0; index < inputs; ++index) {
    OrtTypeInfo* type = nullptr;
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    ONNXTensorElementDataType element;
    std::size_t rank = 0, elements = 1;
    check(api->SessionGetInputName(session, index, allocator, &names[index]));
    check(api->SessionGetInputTypeInfo(session, index, &type));
    check(api->CastTypeInfoToTensorInfo(type, &tensor));
    check(api->GetTensorElementType(tensor, &element));
    check(api->GetDimensionsCount(tensor, &rank));
    std::vector<std::int64_t> shape(rank);
    check(api->GetDimensions(tensor, shape.data(), rank));
    for (std::int64_t& size : shape) {
      if (size < 0) size = 4;
      elements *= static_cast<std::size_t>(size);
    }
    api->ReleaseTypeInfo(type);
    void* data = nullptr;
    std::size_t bytes = 0;
    if (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
      floats[index].resize(elements);
      std::iota(floats[index].begin(), floats[index].end(), 0.0f);
      data = floats[index].data();
      bytes = elements * sizeof(float);
    } else if (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
      integers[index].assign(elements, 2);
      data = integers[index].data();
      bytes = elements * sizeof(std::int64_t);
    } else {
      throw std::runtime_error(std::string("input ") + names[index] + " is neither float nor int64");
    }
    check(api->CreateTensorWithDataAsOrtValue(memory, data, bytes, shape.data(), rank, element,
                                              &values_in[index]));
  }

  char* output_name = nullptr;
  OrtValue* output = nullptr;
  check(api->SessionGetOutputName(session, 0, allocator, &output_name));
  check(api->Run(session, nullptr, names.data(), values_in.data(), inputs, &output_name, 1,
                 &output));
  void* y = nullptr;
  std::size_t bytes = 0;
  check(api->GetTensorMutableData(output, &y));
  check(api->GetTensorSizeInBytes(output, &bytes));
  for (std::size_t index = 0; index < bytes / sizeof(float); ++index) {
    std::cout << (index ? " " : "") << static_cast<float*>(y)[index];
  }
  std::cout << "\n";

  for (char* name : names) check(api->AllocatorFree(allocator, name));
  check(api->AllocatorFree(allocator, output_name));
  for (OrtValue* value : values_in) api->ReleaseValue(value);
  api->ReleaseValue(output);
  api->ReleaseMemoryInfo(memory);
  api->ReleaseSession(session);
}

int main(int argc, char** argv) {
  bool loops = argc == 4 && std::strcmp(argv[3], "loops") == 0;
  if (argc != 3 && !loops) {
    std::cerr << "usage: " << argv[0] << " <librevseq_ep.so> <model.onnx> [loops]\n";
    return 2;
  }
  // The plugin needs 1.24, whatever the header has.
  api = OrtGetApiBase()->GetApi(24);
  if (api == nullptr) {
    std::cerr << "the plugin needs ONNX Runtime 1.24 or later, found "
              << OrtGetApiBase()->GetVersionString() << "\n";
    return 1;
  }
  try {
    OrtEnv* env = nullptr;
    check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "example", &env));
    // ONNX Runtime looks for a relative path beside itself.
    check(api->RegisterExecutionProviderLibrary(env, "revseq",
                                                std::filesystem::absolute(argv[1]).c_str()));
    run(env, argv[2], loops);
    // Sessions first, the library last.
    check(api->UnregisterExecutionProviderLibrary(env, "revseq"));
    api->ReleaseEnv(env);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
