/** The data that a page was written with. */

/** The JSON in the element with the id "data": gzip in base64, since names and attributes repeat a lot. */
export async function pageData<T>(): Promise<T> {
  const element = document.getElementById("data");
  if (element === null) throw new Error("this page holds no data");
  const packed = bytesOf(element.textContent ?? "");
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as T;
}

/** Bytes that stand in base64. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** The script of the page's worker, started; it is inside the page, which may come from a file. */
export function pageWorker(): Worker {
  const script = document.getElementById("worker")?.textContent ?? "";
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const worker = new Worker(url);
  URL.revokeObjectURL(url);
  return worker;
}
