"""OpenVINO's files, by way of ONNX's operators: what ONNX Runtime alone has is left out."""
