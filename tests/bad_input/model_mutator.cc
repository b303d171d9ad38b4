// SPDX-License-Identifier: Apache-2.0
// The tree of an ONNX file and the damages to it.
#include "tests/bad_input/model_mutator.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace halyard {
namespace {

enum Kind : uint8_t {
  kNone,
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kOpset,
  kFunction,
  kEntry
};

struct SubMessage {
  Kind parent;
  uint32_t field;
  Kind child;
};
// Where ONNX has messages inside messages.
constexpr SubMessage kSubMessages[] = {
    {kModel, 7, kGraph},      {kModel, 8, kOpset},      {kModel, 25, kFunction},
    {kGraph, 1, kNode},       {kGraph, 5, kTensor},     {kGraph, 11, kValueInfo},
    {kGraph, 12, kValueInfo}, {kGraph, 13, kValueInfo}, {kNode, 5, kAttribute},
    {kAttribute, 5, kTensor}, {kAttribute, 6, kGraph},  {kAttribute, 10, kTensor},
    {kAttribute, 11, kGraph}, {kTensor, 13, kEntry},    {kValueInfo, 2, kType},
    {kType, 1, kTensorType},  {kTensorType, 2, kShape}, {kShape, 1, kDim},
    {kFunction, 7, kNode},    {kFunction, 9, kOpset},
};

Kind ChildKind(uint8_t parent, uint32_t field) {
  for (const SubMessage& sub : kSubMessages) {
    if (sub.parent == parent && sub.field == field) return sub.child;
  }
  return kNone;
}

uint64_t TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::string TakeBytes(std::string_view& bytes, size_t count) {
  count = std::min(count, bytes.size());
  std::string taken(bytes.substr(0, count));
  bytes.remove_prefix(count);
  return taken;
}

std::vector<WireField> Parse(std::string_view bytes, uint8_t message) {
  std::vector<WireField> fields;
  while (!bytes.empty()) {
    const uint64_t tag = TakeVarint(bytes);
    WireField field;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire_type = static_cast<uint32_t>(tag & 7);
    if (field.wire_type == 0) field.value = TakeVarint(bytes);
    if (field.wire_type == 1) field.bytes = TakeBytes(bytes, 8);
    if (field.wire_type == 5) field.bytes = TakeBytes(bytes, 4);
    if (field.wire_type == 2) {
      field.bytes = TakeBytes(bytes, static_cast<size_t>(TakeVarint(bytes)));
      field.message = ChildKind(message, field.number);
      if (field.message != kNone) {
        field.children = Parse(field.bytes, field.message);
        field.bytes.clear();
      }
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string Serialise(const std::vector<WireField>& fields) {
  std::string out;
  for (const WireField& field : fields) {
    PutVarint(out, uint64_t{field.number} << 3 | field.wire_type);
    if (field.wire_type == 0) {
      PutVarint(out, field.value);
      continue;
    }
    const std::string content = field.message == kNone ? field.bytes : Serialise(field.children);
    if (field.wire_type == 2) PutVarint(out, content.size());
    out += content;
  }
  return out;
}

// Every field of the tree that a test accepts, with the list that holds it.
struct Place {
  std::vector<WireField>* list;
  size_t index;
  uint8_t message;  // that holds it
  WireField& field() const { return (*list)[index]; }
};

template <typename Accept>
void Collect(std::vector<WireField>& fields, uint8_t message, const Accept& accept,
             std::vector<Place>& out) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const Place place{&fields, i, message};
    if (accept(place)) out.push_back(place);
    if (fields[i].message != kNone) Collect(fields[i].children, fields[i].message, accept, out);
  }
}

bool IsOneOf(const Place& place, std::initializer_list<std::pair<Kind, uint32_t>> wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const auto& pair) {
    return place.message == pair.first && place.field().number == pair.second;
  });
}

bool IsName(const Place& place) {  // of a value
  return IsOneOf(place, {{kNode, 1}, {kNode, 2}, {kTensor, 8}, {kValueInfo, 1}});
}

class Damage {
 public:
  Damage(std::vector<WireField>& fields, uint64_t seed) : fields_(fields), random_(seed) {}

  // One change. Returns false when the file has no place for the kind that was drawn.
  bool Apply() {
    switch (random_() % 16) {
      case 0:
      case 1:
        return ChangeSize();
      case 2:
        return ChangeElementType();
      case 3:
        return ChangeOp();
      case 4:
      case 5:
        return ChangeAttribute();
      case 6:
      case 7:
        return RewireInput();
      case 8:
        return RenameOutput();
      case 9:
        return Remove();
      case 10:
        return Repeat();
      case 11:
        return Swap();
      case 12:
        return ChangeExternalData();
      case 13:
        return ChangeData();
      case 14:
        return ChangeOpset();
      default:
        return ChangeAnyVarint();
    }
  }

  // A change after which the file is often still a model, but another one.
  bool ApplyGently() {
    switch (random_() % 8) {
      case 0:
        return ChangeInputSize();
      case 1:
        return ChangeOpOfSameArity();
      case 2:
      case 3:
        return RewireToEarlierValue();
      case 4:
        return ChangeAttributeALittle();
      case 5:
        return ChangeOutput();
      case 6:
        return RemoveAttributeOrOutput();
      default:
        return ChangeData(true);
    }
  }

  // Damage of the bytes themselves: lengths that lie, cuts, and flipped bits.
  void Corrupt(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = random_() % bytes.size();
    switch (random_() % 4) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
        break;
      case 2:
        bytes.insert(at, std::string(1 + random_() % 10, static_cast<char>(0xff)));
        break;
      default:
        bytes.erase(at, 1 + random_() % 8);
    }
  }

 private:
  template <typename Accept>
  std::vector<Place> Find(const Accept& accept) {
    std::vector<Place> places;
    Collect(fields_, kModel, accept, places);
    return places;
  }
  template <typename Accept>
  WireField* Draw(const Accept& accept) {
    const std::vector<Place> places = Find(accept);
    return places.empty() ? nullptr : &places[random_() % places.size()].field();
  }

  uint64_t TellingNumber(uint64_t old) {
    const std::array<uint64_t, 16> values = {
        0,     1,          2,          3,          old + 1,    old - 1,    old * 2,  ~old + 1,
        ~0ull, 1ull << 31, 1ull << 32, 1ull << 40, 1ull << 62, 1ull << 63, old ^ 1u, random_()};
    return values[random_() % values.size()];
  }

  bool ChangeSize() {
    WireField* field = Draw([](const Place& place) {
      return place.field().wire_type == 0 && IsOneOf(place, {{kTensor, 1}, {kDim, 1}});
    });
    if (field == nullptr) return false;
    field->value = TellingNumber(field->value);
    return true;
  }

  bool ChangeElementType() {
    WireField* field = Draw([](const Place& place) {
      return place.field().wire_type == 0 && IsOneOf(place, {{kTensor, 2}, {kTensorType, 1}});
    });
    if (field == nullptr) return false;
    field->value = random_() % 26;
    return true;
  }

  bool ChangeOp() {
    WireField* field = Draw([](const Place& place) { return IsOneOf(place, {{kNode, 4}}); });
    if (field == nullptr) return false;
    static constexpr const char* kOps[] = {"Add",
                                           "MatMul",
                                           "Gemm",
                                           "Conv",
                                           "ConvTranspose",
                                           "Reshape",
                                           "Transpose",
                                           "Gather",
                                           "Slice",
                                           "Concat",
                                           "Split",
                                           "Softmax",
                                           "ReduceSum",
                                           "Expand",
                                           "Pad",
                                           "Resize",
                                           "MaxPool",
                                           "TopK",
                                           "ScatterND",
                                           "Where",
                                           "Shape",
                                           "Squeeze",
                                           "Unsqueeze",
                                           "Tile",
                                           "Range",
                                           "NonZero",
                                           "CumSum",
                                           "Einsum",
                                           "OneHot",
                                           "GatherND",
                                           "LayerNormalization",
                                           "NoSuchOp",
                                           "",
                                           "Identity"};
    field->bytes = kOps[random_() % std::size(kOps)];
    return true;
  }

  bool ChangeAttribute() {
    WireField* field = Draw([](const Place& place) {
      return IsOneOf(place, {{kAttribute, 1},
                             {kAttribute, 2},
                             {kAttribute, 3},
                             {kAttribute, 4},
                             {kAttribute, 7},
                             {kAttribute, 8},
                             {kAttribute, 20}});
    });
    if (field == nullptr) return false;
    if (field->wire_type == 0) {
      field->value = TellingNumber(field->value);
    } else if (field->bytes.empty() || random_() % 2 == 0) {
      field->bytes += static_cast<char>(random_());
      if (field->wire_type == 5) field->bytes.resize(4);
    } else {
      field->bytes[random_() % field->bytes.size()] = static_cast<char>(random_());
    }
    return true;
  }

  // Cycles, missing values and values of another type.
  bool RewireInput() {
    WireField* field = Draw([](const Place& place) { return IsOneOf(place, {{kNode, 1}}); });
    if (field == nullptr) return false;
    const uint64_t choice = random_() % 8;
    if (choice == 0) {
      field->bytes.clear();
    } else if (choice == 1) {
      field->bytes += "_missing";
    } else {
      const WireField* other = Draw(IsName);
      field->bytes = other->bytes;
    }
    return true;
  }

  bool RenameOutput() {
    WireField* field = Draw([](const Place& place) {
      return IsOneOf(place, {{kNode, 2}, {kValueInfo, 1}, {kTensor, 8}});
    });
    if (field == nullptr) return false;
    const WireField* other = Draw(IsName);
    field->bytes = random_() % 4 == 0 ? "" : other->bytes;
    return true;
  }

  bool Remove() {
    const std::vector<Place> places = Find([](const Place&) { return true; });
    const Place& place = places[random_() % places.size()];
    place.list->erase(place.list->begin() + static_cast<ptrdiff_t>(place.index));
    return true;
  }

  bool Repeat() {
    const std::vector<Place> places =
        Find([](const Place& place) { return place.message != kModel; });
    if (places.empty()) return false;
    const Place& place = places[random_() % places.size()];
    const WireField copy = place.field();
    for (uint64_t i = 1 + random_() % 3; i > 0; --i) place.list->push_back(copy);
    return true;
  }

  bool Swap() {
    const std::vector<Place> places =
        Find([](const Place& place) { return place.list->size() > 1; });
    if (places.empty()) return false;
    const Place& place = places[random_() % places.size()];
    std::swap(place.field(), (*place.list)[random_() % place.list->size()]);
    return true;
  }

  bool ChangeExternalData() {
    WireField* field = Draw([](const Place& place) { return IsOneOf(place, {{kEntry, 2}}); });
    if (field == nullptr) return false;
    static constexpr const char* kValues[] = {
        "../weights.bin",      "/etc/passwd", "",       "-1", "4096",
        "9223372036854775807", "1e3",         "nofile", ".",  "0"};
    field->bytes = kValues[random_() % std::size(kValues)];
    return true;
  }

  bool ChangeInputSize() {
    std::vector<Place> dims;
    for (WireField& graph : fields_) {
      if (graph.message != kGraph) continue;
      for (WireField& input : graph.children) {
        if (input.number != 11) continue;
        Collect(
            input.children, kValueInfo,
            [](const Place& place) {
              return IsOneOf(place, {{kDim, 1}, {kDim, 2}});
            },
            dims);
      }
    }
    if (dims.empty()) return false;
    WireField& field = dims[random_() % dims.size()].field();
    const uint64_t sizes[] = {0, 1, 2, 3, 7, 13, 64, 129, 1000};
    if (random_() % 3 == 0) {  // a size with a name, its own or another dimension's
      field.number = field.wire_type = 2;
      field.bytes = random_() % 2 == 0 ? "batch" : "other";
    } else {
      field.number = 1;
      field.wire_type = 0;
      field.value = sizes[random_() % std::size(sizes)];
    }
    return true;
  }

  bool ChangeOpOfSameArity() {
    static const std::vector<std::vector<std::string_view>> kFamilies = {
        {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "MatMul", "PRelu"},
        {"Relu",
         "Sigmoid",
         "Tanh",
         "Erf",
         "Exp",
         "Log",
         "Sqrt",
         "Abs",
         "Neg",
         "Shape",
         "Flatten",
         "Softmax",
         "GlobalAveragePool",
         "GlobalMaxPool",
         "Transpose",
         "Identity",
         "NonZero",
         "ReduceMean",
         "Size",
         "Floor",
         "Reciprocal",
         "HardSwish"},
        {"Reshape", "Gather", "Expand", "Unsqueeze", "Squeeze", "Tile", "GatherElements"}};
    WireField* field = Draw([](const Place& place) { return IsOneOf(place, {{kNode, 4}}); });
    if (field == nullptr) return false;
    for (const auto& family : kFamilies) {
      if (std::find(family.begin(), family.end(), field->bytes) == family.end()) continue;
      field->bytes = family[random_() % family.size()];
      return true;
    }
    return false;
  }

  bool RewireToEarlierValue() {
    const std::vector<Place> places = Find(IsName);
    std::vector<size_t> uses;
    for (size_t i = 0; i < places.size(); ++i) {
      if (IsOneOf(places[i], {{kNode, 1}})) uses.push_back(i);
    }
    if (uses.empty()) return false;
    const size_t use = uses[random_() % uses.size()];
    places[use].field().bytes = places[random_() % (use + 1)].field().bytes;
    return true;
  }

  bool ChangeAttributeALittle() {
    WireField* field = Draw([](const Place& place) {
      return IsOneOf(place, {{kAttribute, 2}, {kAttribute, 3}, {kAttribute, 8}});
    });
    if (field == nullptr) return false;
    if (field->wire_type == 0) {
      field->value = static_cast<uint64_t>(static_cast<int64_t>(random_() % 8) - 2);
    } else if (!field->bytes.empty()) {
      field->bytes.back() = static_cast<char>(random_());
    }
    return true;
  }

  // Another value becomes the output of the model.
  bool ChangeOutput() {
    const std::vector<Place> names = Find([](const Place& place) {
      return IsOneOf(place, {{kNode, 2}});
    });
    if (names.empty()) return false;
    for (WireField& graph : fields_) {
      if (graph.message != kGraph) continue;
      for (WireField& output : graph.children) {
        if (output.number != 12) continue;
        const std::string name = names[random_() % names.size()].field().bytes;
        output.children.clear();  // its type is what the graph computes
        WireField field;
        field.number = 1;
        field.wire_type = 2;
        field.bytes = name;
        output.children.push_back(field);
        return true;
      }
    }
    return false;
  }

  bool RemoveAttributeOrOutput() {
    const std::vector<Place> places = Find([](const Place& place) {
      return IsOneOf(place, {{kNode, 5}, {kGraph, 13}, {kValueInfo, 2}});
    });
    if (places.empty()) return false;
    const Place& place = places[random_() % places.size()];
    place.list->erase(place.list->begin() + static_cast<ptrdiff_t>(place.index));
    return true;
  }

  bool ChangeData(bool keep_size = false) {
    WireField* field = Draw([](const Place& place) {
      return IsOneOf(place, {{kTensor, 9}, {kTensor, 4}, {kTensor, 5}, {kTensor, 7}});
    });
    if (field == nullptr) return false;
    if (keep_size && field->bytes.empty()) return false;
    if (keep_size) {
      field->bytes[random_() % field->bytes.size()] = static_cast<char>(random_() % 8 - 2);
    } else if (random_() % 3 == 0 || field->bytes.empty()) {
      field->bytes += std::string(1 + random_() % 9, '\x7f');
    } else if (random_() % 2 == 0) {
      field->bytes.resize(random_() % field->bytes.size());
    } else {
      field->bytes[random_() % field->bytes.size()] = static_cast<char>(random_());
    }
    return true;
  }

  bool ChangeOpset() {
    WireField* field = Draw([](const Place& place) { return IsOneOf(place, {{kOpset, 2}}); });
    if (field == nullptr) return false;
    field->value = random_() % 2 == 0 ? random_() % 30 : TellingNumber(field->value);
    return true;
  }

  bool ChangeAnyVarint() {
    WireField* field = Draw([](const Place& place) { return place.field().wire_type == 0; });
    if (field == nullptr) return false;
    field->value = TellingNumber(field->value);
    return true;
  }

  std::vector<WireField>& fields_;
  std::mt19937_64 random_;
};

}  // namespace

ModelMutator::ModelMutator(std::string_view model) : fields_(Parse(model, kModel)) {}

std::string ModelMutator::Unchanged() const { return Serialise(fields_); }

std::string ModelMutator::Mutate(uint64_t seed) const {
  std::vector<WireField> fields = fields_;
  Damage damage(fields, seed);
  const bool is_gentle = seed % 2 == 0;
  int changes = 1 + static_cast<int>(seed / 4 % 3);
  for (int tries = 0; changes > 0 && tries < 100; ++tries) {
    changes -= (is_gentle ? damage.ApplyGently() : damage.Apply()) ? 1 : 0;
  }
  std::string bytes = Serialise(fields);
  if (seed % 8 == 7) damage.Corrupt(bytes);
  return bytes;
}

}  // namespace halyard
