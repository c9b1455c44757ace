export const SDKS = ["web", "npm", "python", "node", "rust", "curl"] as const;

export type Sdk = (typeof SDKS)[number];
