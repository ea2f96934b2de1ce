export function Service() { return null; }
